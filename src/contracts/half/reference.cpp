// The references of bf16 and fp16: f32's on rounded inputs, its output rounded.
#include <vector>

#include "src/contracts/reference.h"

namespace hw4 {
namespace {

void forward_in(Element element, const UnitOperands& unit) {
    UnitOperands rounded = unit;
    std::vector<float> inputs[3];
    for (size_t i = 0; i < kForward.inputs.size(); ++i) {
        const int64_t rows = kForward.inputs[i].rows == Rows::of_queries ? unit.queries : unit.keys;
        inputs[i].resize(static_cast<size_t>(rows * unit.dim));
        round_all(element, unit.in[i], inputs[i].size(), inputs[i].data());
        rounded.in[i] = inputs[i].data();
    }
    f32_forward(rounded);
    round_all(element, unit.out[0], static_cast<size_t>(unit.queries * unit.dim), unit.out[0]);
}

} // namespace

void bf16_forward(const UnitOperands& unit) { forward_in(Element::bf16, unit); }
void fp16_forward(const UnitOperands& unit) { forward_in(Element::fp16, unit); }

} // namespace hw4
