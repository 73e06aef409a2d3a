// The references of bf16 and fp16: f32's references on rounded inputs, with rounded outputs.
#include <vector>

#include "src/contracts/contract.h"

namespace hw4 {
namespace {

// The numbers of an operand of the unit.
size_t numbers_of(const Operand& operand, const UnitOperands& unit) {
    const int64_t rows = operand.rows == Rows::of_queries ? unit.group * unit.queries : unit.keys;
    return static_cast<size_t>(rows * unit.dim);
}

void by_f32(const Operation& operation, Element element, const UnitOperands& unit) {
    UnitOperands rounded = unit;
    std::vector<float> inputs[kMostInputs];
    for (size_t i = 0; i < operation.inputs.size(); ++i) {
        inputs[i].resize(numbers_of(operation.inputs[i], unit));
        round_all(element, unit.in[i], inputs[i].size(), inputs[i].data());
        rounded.in[i] = inputs[i].data();
    }
    kF32.find(operation)->reference(rounded);
    for (size_t i = 0; i < operation.outputs.size(); ++i)
        round_all(element, unit.out[i], numbers_of(operation.outputs[i], unit), unit.out[i]);
}

} // namespace

void bf16_forward(const UnitOperands& unit) { by_f32(kForward, Element::bf16, unit); }
void bf16_backward(const UnitOperands& unit) { by_f32(kBackward, Element::bf16, unit); }
void fp16_forward(const UnitOperands& unit) { by_f32(kForward, Element::fp16, unit); }
void fp16_backward(const UnitOperands& unit) { by_f32(kBackward, Element::fp16, unit); }

} // namespace hw4
