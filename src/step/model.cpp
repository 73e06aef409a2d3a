#include "src/step/model.h"

namespace hw4::step {

Parameters parameters_of(const Model& model) {
    Parameters all;
    const auto add = [&](const std::string& name, Initial initial, int64_t rows, int64_t columns, int64_t parts = 1) {
        all.list.push_back({name + ".weight", rows, columns, initial, parts, all.floats});
        all.floats += (all.list.back().count() + kSegment - 1) / kSegment * kSegment;
        return all.list.size() - 1;
    };
    const auto add_gain = [&](const std::string& name) { return add(name, Initial::ones, 1, model.width); };
    all.embedding = add("embedding", Initial::normal, model.vocabulary, model.width);
    for (int64_t index = 0; index < model.layers; ++index) {
        const std::string layer = "layers." + std::to_string(index) + ".";
        LayerPlaces places{};
        places.attention_norm = add_gain(layer + "attention_norm");
        places.qkv = add(layer + "qkv", Initial::scaled, 3 * model.width, model.width, 3);
        places.output = add(layer + "output", Initial::scaled, model.width, model.width);
        places.feed_norm = add_gain(layer + "feed_norm");
        places.gate_up = add(layer + "gate_up", Initial::scaled, 2 * model.hidden, model.width, 2);
        places.down = add(layer + "down", Initial::scaled, model.width, model.hidden);
        all.layers.push_back(places);
    }
    all.norm = add_gain("norm");
    all.head = add("head", Initial::scaled, model.vocabulary, model.width);
    return all;
}

} // namespace hw4::step
