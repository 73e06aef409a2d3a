#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "src/bench/measured_machine.h"
#include "src/step/data_parallel.h"
#include "src/step/trainer.h"
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

using Kind = SyncWay::Kind;

constexpr int64_t kSteps = 3;

Trainer::Batch batch_of(int64_t step) {
    return [step](int64_t first, int64_t count) {
        const Configuration settings = small_settings();
        Tokens tokens{count, settings.context, {}, {}};
        for (int64_t i = first * settings.context; i < (first + count) * settings.context; ++i) {
            tokens.inputs.push_back(static_cast<int32_t>((i * 7 + step) % settings.model.vocabulary));
            tokens.targets.push_back(static_cast<int32_t>((i * i + step) % settings.model.vocabulary));
        }
        return tokens;
    };
}

struct Trained {
    std::vector<float> weights, m, v;
    std::vector<double> losses, norms;

    friend bool operator==(const Trained& a, const Trained& b) {
        return a.weights == b.weights && a.m == b.m && a.v == b.v && a.losses == b.losses && a.norms == b.norms;
    }
};

template <class Step>
Trained trained(Machine& machine, Trainer& trainer, const Step& step) {
    draw_all(machine, trainer, 1);
    Trained result;
    for (int64_t t = 1; t <= kSteps; ++t) {
        const StepResult of_step = step(t, batch_of(t));
        result.losses.push_back(of_step.loss);
        result.norms.push_back(of_step.norm);
    }
    result.weights.assign(trainer.weights(), trainer.weights() + trainer.parameters().floats);
    result.m.assign(trainer.m(), trainer.m() + trainer.shard().count);
    result.v.assign(trainer.v(), trainer.v() + trainer.shard().count);
    return result;
}

Trained by_one() {
    const auto machine = make_reference();
    Trainer trainer(*machine, small_settings(), 8);
    return trained(*machine, trainer, [&](int64_t t, const Trainer::Batch& batch) {
        return take_step(trainer, t, batch, small_settings().batch);
    });
}

// Numbers pass through copies, as on a GPU.
class Remote : public bench::MeasuredMachine {
public:
    Remote() : MeasuredMachine(make_reference(), std::numeric_limits<size_t>::max()) {}
    bool is_on_host() const override { return false; }
};

// One of its copies may fail.
struct Failing : Remote {
    int copies_before = -1; // the copy that fails; below 0: none

    void put(float* to, const float* from, size_t count) override {
        count_one();
        Remote::put(to, from, count);
    }
    void get(float* to, const float* from, size_t count) override {
        count_one();
        Remote::get(to, from, count);
    }
    void count_one() {
        if (copies_before >= 0 && copies_before-- == 0) throw Error(ExitCode::internal, "no copy");
    }
};

// The results of each rank; the shards of m and v joined, on every rank.
std::vector<Trained> by_ranks(int count, SyncWay way, bool sharded, int64_t micro_batch, bool remote = false) {
    std::vector<Trained> results(static_cast<size_t>(count));
    const Configuration settings = small_settings();
    on_thread_ranks(count, [&](Ranks& ranks) {
        const std::unique_ptr<Machine> machine = remote ? std::make_unique<Remote>() : make_reference();
        const auto rank = static_cast<size_t>(ranks.rank());
        Trainer trainer(*machine, settings, micro_batch_for(micro_batch, settings.batch, ranks),
                        shard_of(sharded, settings, ranks));
        DataParallel together(trainer, settings, ranks, way, sharded);
        results[rank] =
            trained(*machine, trainer, [&](int64_t t, const Trainer::Batch& batch) { return together.step(t, batch); });
    });
    if (!sharded) return results;
    Trained all;
    for (const Trained& result : results) {
        all.m.insert(all.m.end(), result.m.begin(), result.m.end());
        all.v.insert(all.v.end(), result.v.begin(), result.v.end());
    }
    for (Trained& result : results) result.m = all.m, result.v = all.v;
    return results;
}

TEST(Buckets, HaveAllTensorsFromTheLastAndNoneCut) {
    const Parameters parameters = parameters_of(small_settings().model); // one segment each
    const size_t tensors = parameters.list.size();
    const auto check = [&](size_t bytes, size_t calls, size_t in_first) {
        const std::vector<Bucket> buckets = buckets_of(parameters, bytes);
        EXPECT_EQ(buckets.size(), calls) << bytes;
        EXPECT_EQ(buckets.front().place, tensors - in_first);
        size_t end = parameters.floats;
        for (const Bucket& bucket : buckets) {
            EXPECT_EQ(bucket.floats.first + bucket.floats.count, end);
            EXPECT_EQ(bucket.floats.first, parameters.list[bucket.place].first);
            end = bucket.floats.first;
        }
        EXPECT_EQ(end, 0);
    };
    constexpr size_t kBytes = kSegment * sizeof(float);
    check(0, tensors, 1);
    check(2 * kBytes - 1, tensors, 1);
    check(2 * kBytes, (tensors + 1) / 2, 2);
    check(SyncWay().most_in_call(), 1, tensors);
}

TEST(Shards, AreCutAtSegments) {
    const std::vector<Piece> shards = shards_of(7 * kSegment, 3);
    size_t end = 0;
    for (const Piece& shard : shards) {
        EXPECT_EQ(shard.first, end);
        EXPECT_EQ(shard.first % kSegment, 0);
        end += shard.count;
    }
    EXPECT_EQ(end, 7 * kSegment);
}

TEST(MicroBatchFor, IsNoLargerThanTheLargestPartAndCutsABatchAlikeOnAllRanks) {
    on_thread_ranks(3, [](Ranks& ranks) {
        const int64_t widest[] = {2, 2, 4}; // of {0, 1}, {2, 3}, {4, 5, 6}
        EXPECT_EQ(micro_batch_for(0, 7, ranks), widest[ranks.rank()]);
        EXPECT_EQ(micro_batch_for(1, 7, ranks), 1);
        EXPECT_EQ(micro_batch_for(0, 1, ranks), 1); // also for a rank without sequences
        EXPECT_EQ(micro_batch_for(0, 7, ranks, true), 2);
        EXPECT_EQ(micro_batch_for(1, 7, ranks, true), 1);
        EXPECT_EQ(micro_batch_for(0, 4, ranks, true), 1); // {0}, {1}, {2, 3}
    });
    on_thread_ranks(2, [](Ranks& ranks) {
        EXPECT_EQ(micro_batch_for(0, 5, ranks, true), 2); // {0, 1}, {2, 3} and {4}
        EXPECT_EQ(micro_batch_for(4, 16, ranks, true), 4);
    });
    on_thread_ranks(1, [](Ranks& ranks) { EXPECT_EQ(micro_batch_for(0, 7, ranks, true), 8); });
}

TEST(DataParallel, HasTheBytesOfOneForEveryNumberOfRanks) {
    const Trained wanted = by_one();
    for (const bool sharded : {false, true})
        for (const int ranks : {1, 2, 3, 4, 7}) // 7: more than sequences
            for (const Trained& result : by_ranks(ranks, {}, sharded, 0))
                EXPECT_TRUE(result == wanted) << ranks << (sharded ? " with shards" : "");
}

TEST(DataParallel, HasTheBytesOfOneWhereNumbersAreNotOnTheHost) {
    const Trained wanted = by_one();
    for (const bool sharded : {false, true})
        for (const Kind kind : {Kind::naive, Kind::flat, Kind::bucketed, Kind::overlapped})
            for (const int ranks : {1, 2, 3, 7})
                for (const Trained& result : by_ranks(ranks, {kind, 3 * kSegment * sizeof(float)}, sharded, 1, true))
                    EXPECT_TRUE(result == wanted) << ranks << name_of(kind) << sharded;
}

// One rank fails in backward; no rank waits forever, and nothing is updated.
TEST(DataParallel, FailsOnAllRanks) {
    for (const Kind kind : {Kind::flat, Kind::overlapped}) {
        int failed = 0;
        std::mutex mutex;
        on_thread_ranks(3, [&](Ranks& ranks) {
            const auto machine = make_reference();
            Trainer trainer(*machine, small_settings(), micro_batch_for(0, 5, ranks));
            DataParallel together(trainer, small_settings(), ranks, {kind, 0}, false);
            draw_all(*machine, trainer, 1);
            const std::vector<float> before(trainer.weights(), trainer.weights() + trainer.parameters().floats);
            try {
                together.step(1, [&](int64_t first, int64_t count) {
                    if (ranks.rank() == 2) throw Error(ExitCode::out_of_memory, "no memory");
                    return batch_of(1)(first, count);
                });
            } catch (const Error& error) {
                const std::lock_guard<std::mutex> lock(mutex);
                EXPECT_EQ(error.code(), ExitCode::out_of_memory);
                EXPECT_STREQ(error.what(), "no memory (rank 2)");
                ++failed;
            }
            EXPECT_TRUE(std::equal(before.begin(), before.end(), trainer.weights()));
        });
        EXPECT_EQ(failed, 3) << name_of(kind);
    }
}

TEST(DataParallel, FailsOnAllRanksWhereACopyDoes) {
    for (const bool sharded : {false, true})
        for (const Kind kind : {Kind::flat, Kind::overlapped}) {
            std::atomic<int> failed{3};
            int copies = -1;
            while (failed == 3) {
                ++copies;
                failed = 0;
                on_thread_ranks(3, [&](Ranks& ranks) {
                    Failing machine;
                    Trainer trainer(machine, small_settings(), 1, shard_of(sharded, small_settings(), ranks));
                    DataParallel together(trainer, small_settings(), ranks, {kind, 3 * kSegment * sizeof(float)},
                                          sharded);
                    if (ranks.rank() == 1) machine.copies_before = copies;
                    try {
                        together.step(1, batch_of(1));
                    } catch (const AgreedError& error) {
                        EXPECT_STREQ(error.what(), "no copy (rank 1)");
                        ++failed;
                    }
                });
            }
            EXPECT_EQ(failed, 0);
            EXPECT_GE(copies, sharded ? 4 : 2) << name_of(kind);
        }
}

} // namespace
} // namespace hw4::step
