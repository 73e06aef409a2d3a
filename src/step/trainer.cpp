#include "src/step/trainer.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "src/base/error.h"
#include "src/step/arithmetic.h"
#include "src/step/orders.h"

namespace hw4::step {
namespace {

Owned<float> zeros(Machine& machine, size_t count) {
    Owned<float> memory = machine.floats(count);
    machine.clear(memory.get(), count);
    return memory;
}

void refuse_infinite(int64_t t, const char* what, double value) {
    if (!std::isfinite(value))
        throw Error(ExitCode::bad_data, "step " + std::to_string(t) + ": the " + what +
                                            " is not a finite number, so the step is not taken");
}

} // namespace

Trainer::Trainer(Machine& machine, const Configuration& settings, int64_t micro_batch, std::optional<Piece> shard)
    : machine_(machine), settings_(settings), micro_batch_(micro_batch), parameters_(parameters_of(settings.model)),
      shard_(shard.value_or(Piece{0, parameters_.floats})), weights_(zeros(machine, parameters_.floats)),
      m_(zeros(machine, shard_.count)), v_(zeros(machine, shard_.count)),
      pass_(machine, settings, parameters_, std::min(micro_batch, settings.batch)),
      squares_(parameters_.floats / kSegment) {}

Owned<float> Trainer::take_gradient() {
    if (unused_.empty()) return zeros(machine_, parameters_.floats);
    Owned<float> gradient = std::move(unused_.back());
    unused_.pop_back();
    return gradient;
}

std::vector<double> Trainer::root_into(const Batch& batch, int64_t first, int64_t count, float* gradient,
                                       const Written& written) {
    std::vector<Owned<float>> pending; // subtrees after the first, the largest first
    std::vector<double> losses;
    const auto subtree = [&](size_t k) { return k == 0 ? gradient : pending[k - 1].get(); };
    for (int64_t done = 0; done < count; done += micro_batch_) {
        const bool is_last = done + micro_batch_ >= count;
        const Tokens tokens = batch(first + done, std::min(micro_batch_, count - done));
        if (done > 0) pending.push_back(take_gradient());
        // The last micro-batch is joined with all before it, tensor after tensor.
        const size_t joins = is_last ? pending.size() : static_cast<size_t>(joins_after(done / micro_batch_));
        const auto join = [&](size_t begin, size_t floats) {
            for (size_t k = pending.size(); k > pending.size() - joins; --k)
                machine_.add(subtree(k - 1) + begin, subtree(k) + begin, floats);
        };
        const Written join_tensor = [&](size_t place) {
            join(parameters_.list[place].first, parameters_.list[place].count());
            if (written) written(place);
        };
        const std::vector<double> more =
            pass_.gradients(tokens, weights_.get(), subtree(pending.size()), is_last ? join_tensor : Written());
        if (!is_last) join(0, parameters_.floats);
        losses.insert(losses.end(), more.begin(), more.end());
        for (size_t i = 0; i < joins; ++i, pending.pop_back()) unused_.push_back(std::move(pending.back()));
    }
    return losses;
}

std::vector<float>& Trainer::squares_of_shard(const float* gradient) {
    machine_.squares(gradient + shard_.first, shard_.count, squares_.data() + shard_.first / kSegment);
    return squares_;
}

double Trainer::sum_of_squares() const {
    double sum = 0;
    for (const Parameter& tensor : parameters_.list)
        sum += squares_sum(squares_.data() + tensor.first / kSegment,
                           parts(static_cast<int64_t>(tensor.count()), kSegment));
    return sum;
}

StepResult Trainer::finish(int64_t t, const std::vector<double>& losses, const float* gradient) {
    const double loss = tree_sum(settings_.batch, [&](int64_t i) { return losses[static_cast<size_t>(i)]; });
    const double tokens = static_cast<double>(settings_.batch * settings_.context);
    const double squares = sum_of_squares();
    const StepResult result{loss * (1 / tokens), std::sqrt(squares)};
    refuse_infinite(t, "loss", result.loss);
    refuse_infinite(t, "gradient's norm", result.norm);
    const Adam adam = adam_of(settings_, learning_rate_of(settings_, t), t, clip_factor(squares, settings_.clip));
    refuse_infinite(t, "learning rate / (1 - beta1^t)", adam.step); // 0 times it would be a NaN
    machine_.adamw(weights_.get() + shard_.first, gradient + shard_.first, m_.get(), v_.get(), shard_.count, adam);
    return result;
}

} // namespace hw4::step
