#include "src/step/pass.h"

#include <algorithm>

#include "src/contracts/rope.h"

namespace hw4::step {

Pass::Pass(Machine& machine, const Configuration& settings, const Parameters& parameters, int64_t sequences)
    : machine_(machine), model_(settings.model), all_(parameters),
      share_(static_cast<float>(1 / static_cast<double>(settings.batch * settings.context))) {
    const auto rows = static_cast<size_t>(sequences * settings.context);
    const auto width = static_cast<size_t>(model_.width);
    const auto hidden = static_cast<size_t>(model_.hidden);
    std::vector<float> table(static_cast<size_t>(settings.context * model_.head_width()));
    constexpr double kTheta = 10000;
    fill_rope_table(kTheta, settings.context, model_.head_width(), table.data());
    rope_ = machine.floats(table.size());
    machine.put(rope_.get(), table.data(), table.size());
    for (int64_t layer = 0; layer < model_.layers; ++layer) layers_.push_back(make_layer(rows));
    last_ = machine.floats(rows * width);
    last_input_ = machine.floats(rows * width);
    last_factors_ = machine.floats(rows);
    logits_ = machine.floats(rows * static_cast<size_t>(model_.vocabulary));
    backward_ = machine.floats(rows * (2 * width + hidden + std::max(3 * width, 2 * hidden)));
    dx_ = backward_.get();
    narrow_ = dx_ + rows * width;
    hidden_ = narrow_ + rows * width;
    wide_ = hidden_ + rows * hidden;
}

Pass::Layer Pass::make_layer(size_t rows) {
    const auto width = static_cast<size_t>(model_.width);
    const auto hidden = static_cast<size_t>(model_.hidden);
    const auto floats = [&](size_t columns) { return machine_.floats(rows * columns); };
    Layer layer;
    for (Owned<float>* memory : {&layer.x, &layer.attention_input, &layer.o, &layer.y, &layer.feed_input})
        *memory = floats(width);
    layer.attention_factors = floats(1);
    layer.feed_factors = floats(1);
    layer.qkv = floats(3 * width);
    layer.gate_up = floats(2 * hidden);
    layer.h = floats(hidden);
    layer.statistics = machine_.statistics(rows * static_cast<size_t>(model_.heads));
    return layer;
}

void Pass::linear(size_t place, const float* x, const float* residual, float* y) {
    const Parameter& w = all_.list[place];
    machine_.linear(x, of(place), residual, y, tokens_->rows(), w.columns, w.rows);
}

void Pass::linear_back(size_t place, const float* x, const float* dy, float* dx) {
    const Parameter& w = all_.list[place];
    machine_.linear_weights(dy, x, gradient_of(place), tokens_->sequences, tokens_->context, w.columns, w.rows);
    say_written(place);
    machine_.linear_back(dy, of(place), dx, tokens_->rows(), w.columns, w.rows);
}

void Pass::norm(size_t place, const float* x, float* y, float* factors) {
    machine_.norm(x, of(place), y, factors, tokens_->rows(), model_.width);
}

void Pass::norm_back(size_t place, const float* x, const float* factors, const float* dy) {
    machine_.norm_gain(x, factors, dy, gradient_of(place), tokens_->sequences, tokens_->context, model_.width);
    say_written(place);
    machine_.norm_back(x, of(place), factors, dy, dx_, tokens_->rows(), model_.width);
}

void Pass::forward_layer(size_t index, float* out) {
    const Layer& layer = layers_[index];
    const LayerPlaces& places = all_.layers[index];
    norm(places.attention_norm, layer.x.get(), layer.attention_input.get(), layer.attention_factors.get());
    linear(places.qkv, layer.attention_input.get(), nullptr, layer.qkv.get());
    machine_.rotate(layer.qkv.get(), rope_.get(), tokens_->sequences, tokens_->context, model_, false);
    machine_.attend(layer.qkv.get(), layer.o.get(), layer.statistics.get(), tokens_->sequences, tokens_->context,
                    model_);
    linear(places.output, layer.o.get(), layer.x.get(), layer.y.get());
    norm(places.feed_norm, layer.y.get(), layer.feed_input.get(), layer.feed_factors.get());
    linear(places.gate_up, layer.feed_input.get(), nullptr, layer.gate_up.get());
    machine_.swiglu(layer.gate_up.get(), layer.h.get(), tokens_->rows(), model_.hidden);
    linear(places.down, layer.h.get(), layer.y.get(), out);
}

void Pass::backward_layer(size_t index) {
    const Layer& layer = layers_[index];
    const LayerPlaces& places = all_.layers[index];
    linear_back(places.down, layer.h.get(), dx_, hidden_);
    machine_.swiglu_back(layer.gate_up.get(), hidden_, wide_, tokens_->rows(), model_.hidden);
    linear_back(places.gate_up, layer.feed_input.get(), wide_, narrow_);
    norm_back(places.feed_norm, layer.y.get(), layer.feed_factors.get(), narrow_);
    linear_back(places.output, layer.o.get(), dx_, narrow_);
    machine_.attend_back(layer.qkv.get(), layer.o.get(), layer.statistics.get(), narrow_, wide_, tokens_->sequences,
                         tokens_->context, model_);
    machine_.rotate(wide_, rope_.get(), tokens_->sequences, tokens_->context, model_, true);
    linear_back(places.qkv, layer.attention_input.get(), wide_, narrow_);
    norm_back(places.attention_norm, layer.x.get(), layer.attention_factors.get(), narrow_);
}

std::vector<double> Pass::gradients(const Tokens& tokens, const float* parameters, float* gradient,
                                    const Written& written) {
    tokens_ = &tokens;
    parameters_ = parameters;
    gradient_ = gradient;
    written_ = written;
    const auto floats = static_cast<size_t>(tokens.rows() * model_.width);
    machine_.embed(tokens, of(all_.embedding), layers_.front().x.get(), model_.width);
    for (size_t i = 0; i < layers_.size(); ++i)
        forward_layer(i, i + 1 < layers_.size() ? layers_[i + 1].x.get() : last_.get());
    norm(all_.norm, last_.get(), last_input_.get(), last_factors_.get());
    linear(all_.head, last_input_.get(), nullptr, logits_.get());
    std::vector<double> losses = machine_.cross_entropy(logits_.get(), tokens, model_.vocabulary, share_);
    linear_back(all_.head, last_input_.get(), logits_.get(), narrow_);
    machine_.clear(dx_, floats); // nothing passes the last norm by
    norm_back(all_.norm, last_.get(), last_factors_.get(), narrow_);
    for (size_t i = layers_.size(); i-- > 0;) backward_layer(i);
    machine_.embed_back(tokens, dx_, gradient_of(all_.embedding), model_.vocabulary, model_.width);
    say_written(all_.embedding);
    return losses;
}

} // namespace hw4::step
