#include "src/step/model.h"

namespace hw4::step {
namespace {

size_t padded(size_t count) { return (count + kSegment - 1) / kSegment * kSegment; }

class ParameterList {
public:
    size_t add_matrix(const std::string& name, int64_t rows, int64_t columns, int64_t parts = 1,
                      Initial initial = Initial::scaled) {
        return add({name + ".weight", rows, columns, false, initial, parts, 0});
    }
    size_t add_gain(const std::string& name, int64_t width) {
        return add({name + ".weight", 1, width, true, Initial::ones, 1, 0});
    }
    Parameters all;

private:
    size_t add(Parameter parameter) {
        parameter.first = all.floats;
        all.floats += padded(parameter.count());
        all.list.push_back(std::move(parameter));
        return all.list.size() - 1;
    }
};

LayerPlaces add_layer(ParameterList& list, const Model& model, const std::string& layer) {
    LayerPlaces places{};
    places.attention_norm = list.add_gain(layer + "attention_norm", model.width);
    places.qkv = list.add_matrix(layer + "qkv", 3 * model.width, model.width, 3);
    places.output = list.add_matrix(layer + "output", model.width, model.width);
    places.feed_norm = list.add_gain(layer + "feed_norm", model.width);
    places.gate_up = list.add_matrix(layer + "gate_up", 2 * model.hidden, model.width, 2);
    places.down = list.add_matrix(layer + "down", model.width, model.hidden);
    return places;
}

} // namespace

Parameters parameters_of(const Model& model) {
    ParameterList list;
    list.all.embedding = list.add_matrix("embedding", model.vocabulary, model.width, 1, Initial::normal);
    for (int64_t layer = 0; layer < model.layers; ++layer)
        list.all.layers.push_back(add_layer(list, model, "layers." + std::to_string(layer) + "."));
    list.all.norm = list.add_gain("norm", model.width);
    list.all.head = list.add_matrix("head", model.vocabulary, model.width);
    return std::move(list.all);
}

} // namespace hw4::step
