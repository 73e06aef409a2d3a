
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "src/base/parallel.h"
#include "src/contracts/f32/asked_gradients.h"
#include "src/cpu/aligned_memory.h"
#include "src/cpu/kernels.h"

namespace hw4::cpu {
namespace {

constexpr int64_t kPairBytes = 2 * sizeof(float);         // P and dS
constexpr int64_t kPairBytesOfThread = int64_t{17} << 19; // a few times the thread's part of the last-level cache
constexpr int64_t kMostPairBytes = int64_t{1} << 30;      // unless a segment of rows is more
constexpr int64_t kPackingTime = 18; // cost of packing the keys for a block; the unit is a product of one row
constexpr int64_t kFloatsOfLine = kCacheLine / sizeof(float);

int64_t parts(int64_t whole, int64_t part) { return (whole + part - 1) / part; }
int64_t whole_parts(int64_t whole, int64_t part) { return parts(whole, part) * part; }

// The division of the work: each head of queries into slabs of rows, and the slabs of all heads into rounds. The pairs
// of a round are in memory at the same time. A round is some heads of keys with all their slabs or, if there is no
// memory for that, some slabs of one head. Only few batches change this: they make a round smaller.
struct Cut {
    int64_t heads;       // of keys, in all batches
    int64_t padded_keys; // whole panels
    int64_t slab_rows;   // whole segments, or all rows of a head
    int64_t slabs;       // of a head of queries
    int64_t head_jobs;   // slabs of all heads of queries that share a head of keys
    int64_t round_jobs;
    int64_t rounds;
    int64_t block_rows; // rows that a thread takes at a time

    Cut(const BackwardKernel& kernel, const Problem& problem, const AskedGradients& asked, int threads)
        : heads(problem.batches * problem.kv_heads), padded_keys(whole_parts(asked.keys, kernel.panel_keys)),
          slab_rows(best_slab(problem.queries, memory(threads) / row_bytes(), kernel.panel_keys, threads)),
          slabs(parts(problem.queries, slab_rows)), head_jobs(problem.heads / problem.kv_heads * slabs) {
        const int64_t jobs_at_once = std::max<int64_t>(memory(threads) / (slab_rows * row_bytes()), 1);
        if (jobs_at_once >= head_jobs) {
            const int64_t heads_at_once = std::min(heads, jobs_at_once / head_jobs);
            round_jobs = heads_at_once * head_jobs;
            rounds = parts(heads, heads_at_once);
        } else {
            round_jobs = jobs_at_once;
            rounds = heads * head_rounds();
        }
        block_rows = best_block(round_jobs, slab_rows, kernel.panel_keys, threads).rows;
    }

    bool splits_heads() const { return round_jobs < head_jobs; }
    int64_t slab_floats() const { return slab_rows * padded_keys; }

    // The jobs of a round: slabs, counted through all heads of queries in their order.
    int64_t first_job(int64_t round) const {
        if (!splits_heads()) return round * round_jobs;
        return round / head_rounds() * head_jobs + round % head_rounds() * round_jobs;
    }
    int64_t end_job(int64_t round) const {
        const int64_t limit = splits_heads() ? (round / head_rounds() + 1) * head_jobs : heads * head_jobs;
        return std::min(first_job(round) + round_jobs, limit);
    }

private:
    int64_t row_bytes() const { return padded_keys * kPairBytes; }
    int64_t head_rounds() const { return parts(head_jobs, round_jobs); }

    // Bytes for pairs: for long rows, as many as two blocks per thread need.
    int64_t memory(int threads) const {
        const int64_t two_blocks_each = int64_t{2} * threads * kSegmentRows * row_bytes();
        return std::max(kPairBytesOfThread * threads, std::min(two_blocks_each, kMostPairBytes));
    }

    struct Block {
        int64_t rows;
        int64_t time; // until the threads have finished all blocks
    };

    // The block size with the shortest time. Of the three products, dQ takes whole panels of rows.
    static Block best_block(int64_t jobs, int64_t slab_rows, int64_t panel_rows, int threads) {
        const auto of_rows = [&](int64_t rows) {
            const int64_t each = 2 * rows + whole_parts(rows, panel_rows) + kPackingTime;
            return Block{rows, parts(jobs * parts(slab_rows, rows), threads) * each};
        };
        Block best = of_rows(kGradientRows);
        for (int64_t rows = kGradientRows - kSegmentRows; rows > 0; rows -= kSegmentRows)
            if (const Block block = of_rows(rows); block.time < best.time) best = block;
        return best;
    }

    // All rows of a head of queries, if there is memory for their pairs; otherwise a few more slabs than necessary, if
    // the threads then finish together.
    static int64_t best_slab(int64_t queries, int64_t most_rows, int64_t panel_rows, int threads) {
        const int64_t least = parts(queries, std::max<int64_t>(most_rows / kSegmentRows, 1) * kSegmentRows);
        const auto rows_of = [&](int64_t slabs) { return whole_parts(parts(queries, slabs), kSegmentRows); };
        const auto time = [&](int64_t slabs) {
            return slabs * best_block(1, rows_of(slabs), panel_rows, threads).time;
        };
        int64_t best = least;
        for (int64_t slabs = least + 1; least > 1 && slabs < least + 4; ++slabs)
            if (time(slabs) < time(best)) best = slabs;
        return std::min(rows_of(best), whole_parts(queries, kPairRows));
    }
};

// The parts of a launch's scratch.
struct Scratch {
    RowStatistics* statistics; // [unit][query]
    float* pairs;              // [job of the round][P, dS]
    float* sums;               // [block of keys][columns]; none if the heads are finished within one round
    float* out;                // forward's O, [unit][query], if no dQ takes its place; else none
    size_t bytes;

    Scratch(void* base, const Cut& cut, const BackwardKernel& kernel, const Problem& problem,
            const AskedGradients& asked) {
        WorkspaceParts all(static_cast<float*>(base));
        const auto take = [&](int64_t count) { return all.take(static_cast<size_t>(count)); };
        constexpr int64_t kStatisticsFloats = sizeof(RowStatistics) / sizeof(float);
        const int64_t key_tasks = parts(asked.keys, kGradientKeys) * parts(problem.dim, kGradientColumns);
        statistics = reinterpret_cast<RowStatistics*>(take(problem.units() * problem.queries * kStatisticsFloats));
        pairs = take(cut.round_jobs * 2 * cut.slab_floats());
        sums = take(cut.splits_heads() ? key_tasks * static_cast<int64_t>(kernel.sum_floats(problem.dim)) : 0);
        out = take(asked.gives_dq ? 0 : problem.units() * problem.queries * problem.dim);
        bytes = all.floats() * sizeof(float);
    }
};

// Tasks that threads take one at a time. No thread goes on to the next phase before all tasks are done.
class Phase {
public:
    void set(int64_t tasks) {
        tasks_ = tasks;
        left_ = tasks;
    }

    template <class Work>
    void take_part(const Work& work) {
        for (int64_t task = 0; (task = next_.fetch_add(1)) < tasks_;) {
            work(task);
            if (left_.fetch_sub(1) == 1) done_.open();
        }
        done_.wait();
    }

private:
    int64_t tasks_ = 0;
    std::atomic<int64_t> next_{0};
    std::atomic<int64_t> left_{0};
    Gate done_;
};

// The work after forward, which has left O in the place of dQ, and the statistics.
class GradientWork {
public:
    GradientWork(const BackwardKernel& kernel, const Launch& launch, const AskedGradients& asked)
        : kernel_(kernel), launch_(launch), problem_(launch.problem), asked_(asked),
          cut_(kernel, problem_, asked, launch.threads), scratch_(launch.scratch, cut_, kernel, problem_, asked),
          scale_(scale_for(problem_.key_dim(), problem_.scale)),
          gradient_scale_(gradient_scale_for(problem_.key_dim(), problem_.scale)),
          row_blocks_(parts(cut_.slab_rows, cut_.block_rows)), column_parts_(parts(problem_.dim, kGradientColumns)),
          key_tasks_(parts(asked.keys, kGradientKeys) * column_parts_), sum_floats_(kernel.sum_floats(problem_.dim)),
          dk_(launch.out[asked.gives_dq ? 1 : 0]), dv_(launch.out[asked.gives_dq ? 2 : 1]) {}

    RowStatistics* statistics() const { return scratch_.statistics; }
    Tensor out() const {
        if (asked_.gives_dq) return launch_.out[0];
        return tensor_at(problem_, kForward.outputs, 0, scratch_.out, static_cast<size_t>(problem_.dim));
    }

    void run() {
        struct Round {
            Phase rows;
            Phase keys;
        };
        const auto rounds = std::make_unique<Round[]>(static_cast<size_t>(cut_.rounds));
        int64_t most_tasks = 0;
        for (int64_t i = 0; i < cut_.rounds; ++i) {
            const int64_t row_tasks = jobs(i) * row_blocks_;
            const int64_t key_tasks = heads(i) * key_tasks_;
            rounds[static_cast<size_t>(i)].rows.set(row_tasks);
            rounds[static_cast<size_t>(i)].keys.set(key_tasks);
            most_tasks = std::max({most_tasks, row_tasks, key_tasks});
        }
        const int workers = static_cast<int>(std::min<int64_t>(launch_.threads, most_tasks));
        const int64_t most_rows = std::min(cut_.block_rows, problem_.queries);
        const size_t floats = whole_lines(kernel_.workspace_floats(most_rows, problem_.dim)) + whole_lines(sum_floats_);
        const AlignedFloats workspaces = allocate_aligned(floats * static_cast<size_t>(workers));
        std::atomic<int> next_worker{0};
        launch_.on_threads(workers, [&] {
            float* const sums = workspaces.get() + floats * static_cast<size_t>(next_worker.fetch_add(1));
            float* const workspace = sums + whole_lines(sum_floats_);
            for (int64_t i = 0; i < cut_.rounds; ++i) {
                Round& round = rounds[static_cast<size_t>(i)];
                round.rows.take_part([&](int64_t task) { take_rows(i, task, workspace); });
                if (asked_.gives_dk_dv)
                    round.keys.take_part([&](int64_t task) { take_keys(i, task, sums, workspace); });
            }
        });
    }

private:
    static size_t whole_lines(size_t floats) {
        return static_cast<size_t>(whole_parts(static_cast<int64_t>(floats), kFloatsOfLine));
    }

    const float* input(size_t index, int64_t batch, int64_t head, int64_t row) const {
        return static_cast<const float*>(launch_.in[index].at(batch, head, row));
    }

    // The jobs and heads of a round; heads of keys, counted through all batches.
    int64_t jobs(int64_t round) const { return cut_.end_job(round) - cut_.first_job(round); }
    int64_t first_head(int64_t round) const { return cut_.first_job(round) / cut_.head_jobs; }
    int64_t heads(int64_t round) const { return parts(cut_.end_job(round), cut_.head_jobs) - first_head(round); }

    // A slab of rows of a head of queries.
    struct Slab {
        int64_t batch = 0;
        int64_t head = 0; // of queries, in the batch
        int64_t unit = 0;
        int64_t first_row = 0;
        int64_t rows = 0;
        VisibleKeys sight;
        Pairs pairs;
    };

    Slab slab_of(int64_t round, int64_t job) const {
        const int64_t unit = job / cut_.slabs;
        const int64_t first_row = job % cut_.slabs * cut_.slab_rows;
        const int64_t first_sees = sight_of(problem_.mask, problem_.queries, problem_.keys).first - asked_.first_key;
        float* const p = scratch_.pairs + (job - cut_.first_job(round)) * 2 * cut_.slab_floats();
        return {unit / problem_.heads,
                unit % problem_.heads,
                unit,
                first_row,
                std::min(cut_.slab_rows, problem_.queries - first_row),
                VisibleKeys{first_sees, asked_.keys}.from(first_row),
                Pairs{p, p + cut_.slab_floats(), cut_.slab_rows * kernel_.panel_keys}};
    }

    // The last blocks of a round come first, as in forward: under the causal mask they are the most work.
    void take_rows(int64_t round, int64_t task, float* workspace) const {
        const int64_t block = jobs(round) * row_blocks_ - 1 - task;
        const Slab slab = slab_of(round, cut_.first_job(round) + block / row_blocks_);
        const int64_t row = block % row_blocks_ * cut_.block_rows;
        if (row >= slab.rows) return; // the last slab of a head may have fewer blocks
        const int64_t rows = std::min(cut_.block_rows, slab.rows - row);
        const int64_t kv_head = slab.head / (problem_.heads / problem_.kv_heads);
        const int64_t first = slab.first_row + row;
        const int64_t pair = row * kernel_.panel_keys;
        kernel_.take_rows({input(0, slab.batch, slab.head, first), input(3, slab.batch, slab.head, first),
                           input(1, slab.batch, kv_head, asked_.first_key),
                           input(2, slab.batch, kv_head, asked_.first_key),
                           static_cast<float*>(out().at(slab.batch, slab.head, first)),
                           scratch_.statistics + slab.unit * problem_.queries + first, rows, asked_.keys, problem_.dim,
                           scale_, gradient_scale_, slab.sight.from(row),
                           Pairs{slab.pairs.p + pair, slab.pairs.ds + pair, slab.pairs.stride}, asked_.gives_dq},
                          workspace);
        if (asked_.gives_dq) launch_.done(rows);
    }

    // The first keys come first: under the causal mask most rows see them. `sums` is for heads that are finished in one
    // round.
    void take_keys(int64_t round, int64_t task, float* sums, float* workspace) const {
        const int64_t head = first_head(round) + task % heads(round);
        const int64_t part = task / heads(round);
        const int64_t first_key = part / column_parts_ * kGradientKeys;
        const int64_t first_column = part % column_parts_ * kGradientColumns;
        const int64_t keys = std::min(kGradientKeys, asked_.keys - first_key);
        const int64_t batch = head / problem_.kv_heads;
        const int64_t kv_head = head % problem_.kv_heads;
        const int64_t pair = first_key * cut_.slab_rows;
        if (cut_.splits_heads()) sums = scratch_.sums + part * static_cast<int64_t>(sum_floats_);
        const int64_t first = head * cut_.head_jobs; // of the head's jobs
        const int64_t end = first + cut_.head_jobs;
        for (int64_t job = std::max(first, cut_.first_job(round)); job < std::min(end, cut_.end_job(round)); ++job) {
            const Slab slab = slab_of(round, job);
            kernel_.take_keys({input(0, slab.batch, slab.head, slab.first_row),
                               input(3, slab.batch, slab.head, slab.first_row),
                               static_cast<float*>(dk_.at(batch, kv_head, first_key)),
                               static_cast<float*>(dv_.at(batch, kv_head, first_key)), slab.first_row, slab.rows,
                               first_key, keys, first_column, problem_.dim, gradient_scale_, slab.sight,
                               Pairs{slab.pairs.p + pair, slab.pairs.ds + pair, slab.pairs.stride}, sums, job == first,
                               job % cut_.slabs == cut_.slabs - 1, job == end - 1},
                              workspace);
        }
        if (end <= cut_.end_job(round) && first_column == 0) launch_.done(2 * keys);
    }

    const BackwardKernel& kernel_;
    const Launch& launch_;
    const Problem& problem_;
    const AskedGradients asked_;
    const Cut cut_;
    const Scratch scratch_;
    const Scale scale_;
    const float gradient_scale_;
    const int64_t row_blocks_;   // in a slab
    const int64_t column_parts_; // of a row
    const int64_t key_tasks_;    // for a head of keys
    const size_t sum_floats_;    // for one task
    const Tensor dk_;            // dK of the block; none if it is not wanted
    const Tensor dv_;
};

// Forward on the same tensors, before anything else: O goes to the place of dQ.
void launch_forward(const Kernel& kernel, const Launch& launch, const Tensor& out, RowStatistics* statistics) {
    Launch forward = launch;
    forward.problem.operation = &kForward;
    forward.out[0] = out;
    forward.statistics = statistics;
    forward.scratch = nullptr;
    forward.done = [](int64_t) {};
    launch_blocks(kernel, forward);
}

// Copies the O and statistics of an earlier forward pass to where launch_forward() would put them.
void bring_forward(const Launch& whole, const AskedGradients& asked, const Tensor& out, RowStatistics* statistics) {
    const Problem& problem = whole.problem;
    const int64_t first = asked.unseeing_rows;
    const int64_t rows = problem.queries - first;
    for (int64_t unit = 0; unit < problem.units(); ++unit) {
        const int64_t batch = unit / problem.heads;
        const int64_t head = unit % problem.heads;
        std::copy_n(whole.statistics + unit * problem.queries + first, rows, statistics + unit * rows);
        std::memcpy(out.at(batch, head), whole.forward_out.at(batch, head, first),
                    static_cast<size_t>(rows) * problem.row_bytes());
    }
}

// The launch without the rows that form no pairs.
Launch of_rows(const Launch& launch, const AskedGradients& asked) {
    Launch seeing = launch;
    seeing.problem = asked.of_rows(launch.problem);
    for (Tensor* tensor : {&seeing.in[0], &seeing.in[3]}) *tensor = tensor->from_row(asked.unseeing_rows);
    return seeing;
}

} // namespace

Plan plan_backward(const Kernel& kernel, const Problem& problem, int threads) {
    const BackwardKernel& steps = *kernel.backward;
    const AskedGradients asked(problem);
    const Problem seeing = asked.of_rows(problem);
    return {"", Scratch(nullptr, Cut(steps, seeing, asked, threads), steps, seeing, asked).bytes};
}

void launch_backward(const Kernel& kernel, const Launch& launch) {
    const AskedGradients asked(launch.problem);
    const Launch seeing = of_rows(launch, asked);
    GradientWork work(*kernel.backward, seeing, asked);
    if (launch.forward_out.data == nullptr)
        launch_forward(kernel, seeing, work.out(), work.statistics());
    else
        bring_forward(launch, asked, work.out(), work.statistics());
    work.run();
}

} // namespace hw4::cpu
