#include "src/bench/parameter_list.h"

namespace hw4::bench {

std::vector<Tensor> Model::tensors() const {
    std::vector<Tensor> list;
    int done = 0;
    std::string prefix;
    const auto add = [&](const char* tensor, int rows, int columns = 1) {
        list.push_back({prefix + tensor, static_cast<size_t>(rows) * static_cast<size_t>(columns), done});
    };
    const auto add_norm = [&](const std::string& norm) {
        if (!in_cs336_way) add((norm + ".bias").c_str(), width);
        add((norm + ".weight").c_str(), width);
    };
    const auto add_linear = [&](const std::string& linear, int out, int in) {
        if (!in_cs336_way) add((linear + ".bias").c_str(), out);
        add((linear + ".weight").c_str(), out, in);
    };
    add("head.weight", vocabulary, width);
    add_norm("final_norm");
    for (done = 1; done <= layers; ++done) {
        prefix = "layer" + std::to_string(layers - done) + ".";
        if (in_cs336_way) {
            for (const char* const gate : {"w3", "w1"}) add_linear(gate, feed_forward, width);
            add_linear("w2", width, feed_forward);
        } else {
            add_linear("down", width, feed_forward);
            add_linear("up", feed_forward, width);
        }
        add_norm("norm2");
        add_linear("output", width, width);
        if (in_cs336_way)
            for (const char* const projection : {"v", "k", "q"}) add_linear(projection, width, width);
        else
            add_linear("qkv", 3 * width, width);
        add_norm("norm1");
    }
    done = layers;
    prefix = "";
    if (positions > 0) add("positions", positions, width);
    add("tokens", vocabulary, width);
    return list;
}

const std::vector<Model>& models() {
    static const std::vector<Model> list = {
        {"71m", "width 512, 12 layers, vocabulary 32000: 70859776 parameters in 149 tensors", 12, 512, 8, 2048, 32000,
         512, false},
        {"cs336-xl", "width 1600, 48 layers, vocabulary 10000: 1998235200 parameters in 435 tensors", 48, 1600, 25,
         6400, 10000, 0, true},
        {"tiny", "width 64, 2 layers, vocabulary 256: for trying out", 2, 64, 2, 256, 256, 32, false},
    };
    return list;
}

size_t count_of(const std::vector<Tensor>& tensors) {
    size_t count = 0;
    for (const Tensor& tensor : tensors) count += tensor.count;
    return count;
}

std::vector<Bucket> buckets_of(const std::vector<Tensor>& tensors, size_t bytes) {
    std::vector<Bucket> buckets;
    size_t next = 0;
    for (const Tensor& tensor : tensors) {
        const bool fits = !buckets.empty() && (buckets.back().count + tensor.count) * sizeof(float) <= bytes;
        if (!fits) buckets.push_back({next, 0, 0});
        buckets.back().count += tensor.count;
        buckets.back().after_layers = tensor.after_layers; // never fewer than those before
        next += tensor.count;
    }
    return buckets;
}

} // namespace hw4::bench
