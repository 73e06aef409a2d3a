#include "src/step/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "tests/support/small_training.h"

namespace hw4::step {
namespace {

class SmallRun {
public:
    explicit SmallRun(int64_t micro_batch, std::unique_ptr<Machine> machine = make_reference())
        : machine_(std::move(machine)), trainer(*machine_, settings_, micro_batch) {
        write_file(folder_ / "t", small_text());
        text_ = std::make_unique<TokenFile>(folder_ / "t", 16, settings_);
        draw_all(*machine_, trainer, settings_.seed);
    }

    Trainer::Batch batch(int64_t t) const {
        return [this, t](int64_t first, int64_t count) { return text_->sequences(settings_, t - 1, first, count); };
    }
    std::vector<float> copy_of(const float* from) const {
        std::vector<float> copy(trainer.parameters().floats);
        machine_->get(copy.data(), from, copy.size());
        return copy;
    }
    // Losses, norms and all results of three steps.
    std::vector<std::vector<float>> after_three_steps(std::vector<double>& said) {
        for (int64_t t = 1; t <= 3; ++t) {
            const StepResult result = take_step(trainer, t, batch(t), 5);
            said.insert(said.end(), {result.loss, result.norm});
        }
        return {copy_of(trainer.weights()), copy_of(trainer.m()), copy_of(trainer.v())};
    }
    Machine& machine() { return *machine_; }

private:
    const Configuration settings_ = small_settings();
    TemporaryFolder folder_;
    std::unique_ptr<TokenFile> text_;
    std::unique_ptr<Machine> machine_;

public:
    Trainer trainer;
};

TEST(StepTrainer, GivesTheSameBytesForEveryMicroBatchAndMachine) {
    std::vector<double> said;
    const auto expected = SmallRun(8).after_three_steps(said);
    for (const int64_t micro_batch : {1, 2, 4}) {
        std::vector<double> also_said;
        EXPECT_EQ(SmallRun(micro_batch).after_three_steps(also_said), expected) << micro_batch;
        EXPECT_EQ(also_said, said);
    }
    std::vector<double> said_by_cpu;
    EXPECT_EQ(SmallRun(2, make_cpu(2)).after_three_steps(said_by_cpu), expected);
    EXPECT_EQ(said_by_cpu, said);
    EXPECT_NEAR(said[0], std::log(11.0), 1); // an untrained model
}

// Two ranks, each with its aligned block of 4 of the 5 sequences, then one addition.
TEST(StepTrainer, JoinsTheRootsOfBlocksToThatOfTheBatch) {
    SmallRun run(2);
    const Root whole = root_of(run.trainer, run.batch(1), 0, 5);
    const Root left = root_of(run.trainer, run.batch(1), 0, 4);
    const Root right = root_of(run.trainer, run.batch(1), 4, 1);
    run.machine().add(left.gradient.get(), right.gradient.get(), run.trainer.parameters().floats);
    EXPECT_EQ(run.copy_of(left.gradient.get()), run.copy_of(whole.gradient.get()));
    std::vector<double> losses = left.losses;
    losses.insert(losses.end(), right.losses.begin(), right.losses.end());
    EXPECT_EQ(losses, whole.losses);
}

// Each tensor alone: a step along its gradient changes the loss by the gradient's norm per unit of length.
TEST(StepTrainer, GradientsAreTheSlopesOfTheLoss) {
    SmallRun run(8);
    const std::vector<float> weights = run.copy_of(run.trainer.weights());
    const Root root = root_of(run.trainer, run.batch(1), 0, 5);
    const std::vector<float> gradient = run.copy_of(root.gradient.get());
    const auto loss_at = [&](const Parameter& tensor, double step) {
        std::vector<float> moved = weights;
        for (size_t i = tensor.first; i < tensor.first + tensor.count(); ++i)
            moved[i] = static_cast<float>(weights[i] + step * gradient[i]);
        run.machine().put(run.trainer.weights(), moved.data(), moved.size());
        const std::vector<double> losses = root_of(run.trainer, run.batch(1), 0, 5).losses;
        return std::accumulate(losses.begin(), losses.end(), 0.0) / 35;
    };
    for (const Parameter& tensor : run.trainer.parameters().list) {
        double squares = 0;
        for (size_t i = tensor.first; i < tensor.first + tensor.count(); ++i)
            squares += double{gradient[i]} * gradient[i];
        const double norm = std::sqrt(squares);
        ASSERT_GT(norm, 1e-3) << tensor.name;
        constexpr double kLength = 4e-3;
        const double slope = (loss_at(tensor, kLength / norm) - loss_at(tensor, -kLength / norm)) / (2 * kLength);
        EXPECT_NEAR(slope, norm, 0.01 * norm + 1e-4) << tensor.name;
    }
}

TEST(StepTrainer, TakesNoStepThatIsNotFinite) {
    SmallRun run(8);
    const float infinite = INFINITY;
    const Parameters& parameters = run.trainer.parameters();
    run.machine().put(run.trainer.weights() + parameters.list[parameters.head].first, &infinite, 1);
    const std::vector<float> before = run.copy_of(run.trainer.weights());
    const Failure failure = failure_of([&] { take_step(run.trainer, 3, run.batch(3), 5); });
    EXPECT_EQ(failure,
              (Failure{ExitCode::bad_data, "step 3: the loss is not a finite number, so the step is not taken"}));
    EXPECT_EQ(run.copy_of(run.trainer.weights()), before);
    EXPECT_EQ(run.copy_of(run.trainer.m()), std::vector<float>(parameters.floats));
    EXPECT_EQ(run.copy_of(run.trainer.v()), std::vector<float>(parameters.floats));
}

TEST(StepTrainer, RefusesANormThatIsNotFinite) {
    SmallRun run(8);
    Root root = root_of(run.trainer, run.batch(1), 0, 5);
    const float large = 0x1p80f;
    run.machine().put(root.gradient.get(), &large, 1);
    EXPECT_EQ(failure_of([&] { update(run.trainer, 1, root); }).message,
              "step 1: the gradient's norm is not a finite number, so the step is not taken");
}

} // namespace
} // namespace hw4::step
