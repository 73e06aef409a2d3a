#include "src/step/trainer.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "src/base/error.h"
#include "src/step/arithmetic.h"
#include "src/step/orders.h"
#include "src/step/schedule.h"

namespace hw4::step {
namespace {

Owned<float> zeros(Machine& machine, size_t count) {
    Owned<float> memory = machine.floats(count);
    machine.fill(memory.get(), 0, count);
    return memory;
}

void refuse_infinite(int64_t t, const char* what, double value) {
    if (!std::isfinite(value))
        throw Error(ExitCode::bad_data, "step " + std::to_string(t) + ": the " + what +
                                            " is not a finite number, so the step is not taken");
}

} // namespace

Trainer::Trainer(Machine& machine, const Configuration& settings, int64_t micro_batch)
    : machine_(machine), settings_(settings), micro_batch_(micro_batch), parameters_(parameters_of(settings.model)),
      weights_(zeros(machine, parameters_.floats)), m_(zeros(machine, parameters_.floats)),
      v_(zeros(machine, parameters_.floats)),
      pass_(machine, settings, parameters_, std::min(micro_batch, settings.batch)),
      squares_(parameters_.floats / kSegment) {}

Owned<float> Trainer::take_gradient() {
    if (unused_.empty()) return zeros(machine_, parameters_.floats);
    Owned<float> gradient = std::move(unused_.back());
    unused_.pop_back();
    return gradient;
}

void Trainer::join(std::vector<Owned<float>>& pending) {
    unused_.push_back(std::move(pending.back()));
    pending.pop_back();
    machine_.add(pending.back().get(), unused_.back().get(), parameters_.floats);
}

Root Trainer::root_of(const Batch& batch, int64_t first, int64_t count) {
    std::vector<Owned<float>> pending; // subtrees, the largest first
    std::vector<double> losses;
    for (int64_t done = 0; done < count; done += micro_batch_) {
        const Tokens tokens = batch(first + done, std::min(micro_batch_, count - done));
        pending.push_back(take_gradient());
        const std::vector<double> more = pass_.gradients(tokens, weights_.get(), pending.back().get());
        losses.insert(losses.end(), more.begin(), more.end());
        for (int joins = joins_after(done / micro_batch_); joins > 0; --joins) join(pending);
    }
    while (pending.size() > 1) join(pending);
    const double loss =
        tree_sum(static_cast<int64_t>(losses.size()), [&](int64_t i) { return losses[static_cast<size_t>(i)]; });
    return {std::move(pending.back()), loss};
}

double Trainer::squares_of(const float* gradient) {
    machine_.squares(gradient, parameters_.floats, squares_.data());
    double sum = 0;
    for (const Parameter& tensor : parameters_.list)
        sum += squares_sum(squares_.data() + tensor.first / kSegment,
                           (static_cast<int64_t>(tensor.count()) + kSegment - 1) / kSegment);
    return sum;
}

StepResult Trainer::update(int64_t t, Root whole) {
    const double tokens = static_cast<double>(settings_.batch * settings_.context);
    const double squares = squares_of(whole.gradient.get());
    const StepResult result{whole.loss * (1 / tokens), std::sqrt(squares)};
    refuse_infinite(t, "loss", result.loss);
    refuse_infinite(t, "gradient's norm", result.norm);
    const AdamSettings of{learning_rate_of(settings_, t), settings_.beta1, settings_.beta2, settings_.eps,
                          settings_.weight_decay};
    machine_.adamw(weights_.get(), whole.gradient.get(), m_.get(), v_.get(), parameters_.floats,
                   adam_of(of, t, clip_factor(squares, settings_.clip)));
    unused_.push_back(std::move(whole.gradient));
    return result;
}

} // namespace hw4::step
