#include "src/bench/measure.h"

#include <algorithm>
#include <chrono>
#include <tuple>

#include "src/base/parallel.h"
#include "src/bench/exact_rows.h"
#include "src/bench/outcome.h"
#include "src/bench/sampling.h"
#include "src/io/case_values.h"
#include "src/run/output_checksum.h"

namespace hw4::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMostFloats = 0x1p40;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr uint64_t kSeed = 1; // as in `testcases/generate --seed 1`

// The source of a cell's values, apart from the operation.
auto origin_of(const Cell& cell) {
    return std::tie(cell.kind, cell.batch_size, cell.seq_len, cell.num_heads, cell.emb_dim, cell.kv_heads, cell.queries,
                    cell.causal, cell.element);
}

CaseData made(const Cell& cell, const Problem& problem) {
    CaseData data{problem, UntouchedVector<float>(problem.floats_in(problem.input_rows()))};
    const CaseRecipe recipe{problem, distribution_of(cell.kind), kSeed};
    in_pieces(data.values.size(), kPieceNumbers, [&](size_t first, size_t count) {
        float* const values = data.values.data() + first;
        fill_case_values(recipe, first, count, values);
        round_all(problem.element, values, count, values);
    });
    return data;
}

// The number of launches of `each` seconds that the limit allows.
int launches_within_limit(double each, const Rules& rules) {
    const double fitting = each > 0 ? rules.limit_s / each : rules.repeats;
    return static_cast<int>(std::clamp<double>(fitting, std::min(kLeastRuns, rules.repeats), rules.repeats));
}

// Samples as lab5.py takes them: with the host's clock around all launches. The last launch of the warm-up tells how
// many the limit allows; without a warm-up, the first launches that count do.
Samples wall_samples(Workbench& workbench, Subject& subject, const Rules& rules) {
    const auto run = [&](int launches) {
        for (int i = 0; i < launches; ++i) subject.run();
        workbench.wait();
    };
    const int warmup = rules.warmup == Rules::kByTime ? std::max(rules.repeats / 100, 2) : rules.warmup;
    if (warmup > 1) run(warmup - 1);
    Clock::time_point start = Clock::now();
    if (warmup > 0) {
        run(1);
        const int launches = launches_within_limit(seconds_since(start), rules);
        start = Clock::now();
        run(launches);
        return {launches, {seconds_since(start) / launches}};
    }
    const int first = std::min(kLeastRuns, rules.repeats);
    run(first);
    const int launches = launches_within_limit(seconds_since(start) / first, rules);
    if (launches > first) run(launches - first);
    return {launches, {seconds_since(start) / launches}};
}

bool settled(const std::vector<double>& seconds, const Rules& rules, Clock::time_point start) {
    const auto samples = static_cast<int>(seconds.size());
    if (samples >= rules.repeats) return true;
    if (samples < kLeastRuns) return false;
    return seconds_since(start) >= rules.limit_s;
}

// All passes of a cell, with shared data.
class CellMeasurement {
public:
    CellMeasurement(const Cell& cell, Workbench& workbench, KeptData& kept, const Report& report)
        : cell_(cell), workbench_(workbench), kept_(kept), report_(report) {
        kept_.release_others(cell);
    }

    Measured measured(Pass pass) {
        Measured result;
        static_cast<Outcome&>(result) = outcome_of([&] { measure(pass, result); });
        if (result.as_reference == false) {
            result.status = Status::failed;
            result.reason = "the bytes differ from the contract's reference";
        }
        return result;
    }

    // The allocations and frees of one run, until an allocation is refused.
    MemoryTrack memory_of(Pass pass) {
        MemoryLog log;
        outcome_of([&] { run_once(pass, log); }); // the row already has the outcome
        return {words_of(cell_), name_of(pass), log.events()};
    }

private:
    void measure(Pass pass, Measured& result) {
        const Report report = [&](const std::string& what) {
            if (report_) report_(std::string(name_of(pass)) + ": " + what);
        };
        const Problem problem = problem_of(cell_, operation_of(pass));
        MemoryCount memory(free_bytes());
        refuse_too_large(problem, memory);
        report("operands");
        const CaseData& data = kept_.of(cell_, *problem.operation);
        const std::unique_ptr<Subject> subject = workbench_.prepare(cell_, pass, data, memory);
        result.kernel = subject->kernel;
        result.revision = subject->revision;
        result.scratch_bytes = subject->scratch_bytes;
        result.before_backward_bytes = subject->before_backward_bytes;
        Samples samples = take_samples(workbench_, *subject, cell_.rules, report);
        result.launches = samples.launches;
        if (cell_.decodes()) result.memory_rate = workbench_.memory_rate();
        result.seconds = std::move(samples.seconds);
        result.peak_bytes = memory.peak();
        report("checks");
        const UntouchedVector<float> output = subject->output();
        result.output_crc32 = OutputChecksum::of(output.data(), output.size() * sizeof(float));
        result.error = error_of_rows(data, output.data());
        const Contract* const contract = find_contract(cell_.impl);
        if (contract != nullptr) result.as_reference = has_reference_bytes(*contract, data, output.data());
    }

    void run_once(Pass pass, MemoryLog& log) {
        const Problem problem = problem_of(cell_, operation_of(pass));
        MemoryCount memory(free_bytes(), &log);
        refuse_too_large(problem, memory);
        const CaseData& data = kept_.of(cell_, *problem.operation);
        const std::unique_ptr<Subject> subject = workbench_.prepare(cell_, pass, data, memory);
        subject->run();
        workbench_.wait();
    }

    size_t free_bytes() {
        const size_t free = workbench_.free_bytes();
        const auto limit = static_cast<size_t>(cell_.memory_limit);
        return limit > 0 ? std::min(limit, free) : free;
    }

    // Refuses before values are generated in vain.
    static void refuse_too_large(const Problem& problem, MemoryCount& memory) {
        const double rows =
            static_cast<double>(problem.units()) * static_cast<double>(std::max(problem.queries, problem.keys));
        if (rows * static_cast<double>(problem.dim) * kMostInputs > kMostFloats)
            throw Unsupported("more than 2^40 numbers");
        memory.need(problem.stored_input_bytes(), purpose::kInputs);
    }

    const Cell& cell_;
    Workbench& workbench_;
    KeptData& kept_;
    const Report& report_;
};

} // namespace

void KeptData::release_others(const Cell& cell) {
    if (!made_for_ || origin_of(*made_for_) != origin_of(cell)) data_ = {};
    made_for_ = cell;
}

size_t KeptData::bytes() const {
    size_t bytes = 0;
    for (const std::optional<CaseData>& data : data_)
        if (data) bytes += data->values.size() * sizeof(float);
    return bytes;
}

const CaseData& KeptData::of(const Cell& cell, const Operation& operation) {
    release_others(cell);
    std::optional<CaseData>& data = data_[&operation == &kForward ? 0 : 1];
    if (!data) data = made(cell, problem_of(cell, operation));
    return *data;
}

Samples take_samples(Workbench& workbench, Subject& subject, const Rules& rules, const Report& report) {
    report("warm-up");
    if (rules.timing == Timing::wall) return wall_samples(workbench, subject, rules);
    const auto sample = [&](int launches) { return workbench.sample(subject, launches); };
    Samples samples;
    if (rules.warmup == Rules::kByTime) {
        const double launch_seconds = warm_up(sample);
        if (!rules.cold) samples.launches = launches_for(launch_seconds);
    } else if (rules.warmup > 0) {
        for (int i = 0; i < rules.warmup; ++i) subject.run();
        workbench.wait();
    }
    const Clock::time_point start = Clock::now();
    do {
        if (rules.cold) workbench.flush_caches();
        samples.seconds.push_back(sample(samples.launches));
        report(std::to_string(samples.seconds.size()) + " of " + std::to_string(rules.repeats) + " samples");
    } while (!settled(samples.seconds, rules, start));
    return samples;
}

Row measure(const Cell& cell, Workbench& workbench, KeptData& kept, std::vector<MemoryTrack>* memory,
            const Report& report) {
    if (!cell.heads_divide())
        return row_without(cell, Status::unsupported,
                           "emb_dim " + std::to_string(cell.emb_dim) + " is no multiple of num_heads " +
                               std::to_string(cell.num_heads));
    if (cell.num_heads % cell.key_heads() != 0)
        return row_without(cell, Status::unsupported,
                           "num_heads " + std::to_string(cell.num_heads) + " is no multiple of kv_heads " +
                               std::to_string(cell.kv_heads));
    if (cell.impl == "naive" && (cell.decodes() || cell.key_heads() != cell.num_heads))
        return row_without(cell, Status::unsupported, "naive takes as many queries as keys, each with its own head");
    Row row = row_without(cell, Status::skipped, "");
    CellMeasurement measurement(cell, workbench, kept, report);
    for (const Pass pass : kPasses) {
        if (!cell.wants(pass)) continue;
        row.of(pass) = measurement.measured(pass);
        if (memory != nullptr && row.of(pass).status != Status::unsupported)
            memory->push_back(measurement.memory_of(pass));
    }
    return row;
}

} // namespace hw4::bench
