// Forward and backward of one micro-batch: from tokens and parameters to the gradient of every parameter. All memory is
// taken once, for the largest micro-batch.
//
// A layer is y = x + output(attend(rotate(qkv(norm(x))))), then down(swiglu(gate_up(norm(y)))) + y. Backward goes
// through the same operations from the last to the first, and `dx` is the gradient of the residual stream where it
// stands.
#pragma once

#include <functional>
#include <vector>

#include "src/step/configuration.h"
#include "src/step/machine.h"

namespace hw4::step {

// Told of every tensor as soon as its gradient is complete: from the last place of the list to the first.
using Written = std::function<void(size_t place)>;

class Pass {
public:
    // Takes memory for micro-batches of up to `sequences`. Throws Error (out_of_memory).
    Pass(Machine& machine, const Configuration& settings, const Parameters& parameters, int64_t sequences);

    // `gradient` gets every tensor's TOKEN-SUM over these sequences; what lies between two tensors is not touched.
    // Returns each sequence's sum of losses.
    std::vector<double> gradients(const Tokens& tokens, const float* parameters, float* gradient,
                                  const Written& written = {});

private:
    // What forward leaves for backward.
    struct Layer {
        Owned<float> x, attention_input, attention_factors, qkv, o;
        Owned<RowStatistics> statistics;
        Owned<float> y, feed_input, feed_factors, gate_up, h;
    };

    Layer make_layer(size_t rows);
    const float* of(size_t place) const { return parameters_ + all_.list[place].first; }
    float* gradient_of(size_t place) const { return gradient_ + all_.list[place].first; }
    void say_written(size_t place) const {
        if (written_) written_(place);
    }
    void linear(size_t place, const float* x, const float* residual, float* y);
    // dx = dy W, and dW
    void linear_back(size_t place, const float* x, const float* dy, float* dx);
    void norm(size_t place, const float* x, float* y, float* factors);
    void norm_back(size_t place, const float* x, const float* factors, const float* dy);
    void forward_layer(size_t index, float* out);
    void backward_layer(size_t index);

    Machine& machine_;
    const Model model_;
    const Parameters& all_;
    const float share_; // 1 / (tokens of the global batch)
    std::vector<Layer> layers_;
    Owned<float> rope_, last_, last_input_, last_factors_, logits_; // the last norm's and the head's
    Owned<float> backward_;
    float *dx_, *narrow_, *wide_, *hidden_; // gradients, in that memory
    // For the current micro-batch:
    const Tokens* tokens_ = nullptr;
    const float* parameters_ = nullptr;
    float* gradient_ = nullptr;
    Written written_;
};

} // namespace hw4::step
