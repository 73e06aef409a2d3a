#include "src/bench/step.h"

#include <algorithm>
#include <cstdio>

#include "src/bench/row_json.h"
#include "src/bench/sampling.h"
#include "src/bench/tables.h"
#include "src/bench/workbench.h"
#include "src/ranks/launched.h"
#include "src/run/output_checksum.h"
#include "src/step/kernels.h"
#include "src/step/philox.h"
#include "src/step/weights.h"

namespace hw4::bench {
namespace {

step::Trainer::Batch drawn_batch(const step::Configuration& settings, int64_t step) {
    return [settings, step](int64_t first, int64_t count) {
        step::Tokens tokens{count, settings.context, {}, {}};
        const auto vocabulary = static_cast<uint64_t>(settings.model.vocabulary);
        for (int64_t i = 0; i < tokens.rows(); ++i) {
            const auto number = static_cast<uint64_t>((step * settings.batch + first) * settings.context + i);
            const step::PhiloxBlock drawn = step::philox(1, number, step::kForSequences, 0);
            tokens.inputs.push_back(static_cast<int32_t>(step::below(vocabulary, step::wide(drawn[0], drawn[1]))));
            tokens.targets.push_back(static_cast<int32_t>(step::below(vocabulary, step::wide(drawn[2], drawn[3]))));
        }
        return tokens;
    };
}

std::unique_ptr<Workbench> workbench_of(const RankGroup& group) {
    return group.device == "gpu" ? gpu_workbench() : cpu_workbench(1);
}

// The memory for a rank, on its GPU or its machine.
size_t free_bytes_of(const RankGroup& group) {
    const int places = group.device == "gpu" ? group.cards : group.machines;
    return workbench_of(group)->free_bytes() * static_cast<size_t>(places) / static_cast<size_t>(group.ranks);
}

std::unique_ptr<NaiveAttention> naive_of(const StepCell& cell, const RankGroup& group) {
    if (cell.attention == StepAttention::ours) return nullptr;
    return group.device == "gpu" ? gpu_naive() : cpu_naive(cell.threads);
}

// A rank's model and its part of a step.
class MeasuredStep {
public:
    MeasuredStep(const StepCell& cell, const RankGroup& group, Ranks& ranks)
        : settings_(cell.settings()), compares_after_(cell.operations ? cell.rules.warmup : -1),
          micro_batch_(step::micro_batch_for(cell.micro_batch, settings_.batch, ranks, settings_.is_bf16())),
          phases_alone_(group.device == "gpu" && group.ranks == 1),
          machine_(group.device == "gpu" ? step::make_gpu(ranks.node_rank(), *cell.contract)
                                         : step::make_cpu(cell.threads, *cell.contract),
                   free_bytes_of(group), naive_of(cell, group), cell.seq_len),
          trainer_(machine_, settings_, micro_batch_, step::shard_of(cell.shard, settings_, ranks)),
          together_(trainer_, settings_, ranks, cell.way, cell.shard) {
        step::draw_all_weights(machine_, trainer_.parameters(), 1, cell.threads, trainer_.weights());
        after_init_ = machine_.peak_bytes();
    }

    // Takes the samples of a step.
    void run(StepRow& row) {
        if (steps_ == compares_after_) machine_.compare(gpu_yardstick(machine_.stream()));
        step(compares_after_ >= 0 || !phases_alone_);
        row.communicating.push_back(together_.communicating());
        for (size_t i = 0; i < std::size(kStepPhases); ++i) row.of_phase[i].push_back(seconds_.of_phase[i]);
    }

    void finish(StepRow& row, const RankGroup& group) {
        row.steps = steps_;
        row.parameters_crc32 = crc32_of_parameters();
        if (phases_alone_ && compares_after_ < 0) step(true);
        row.operations = seconds_;
        row.in_forward = machine_.in_use(true);
        row.in_step = machine_.in_use(false);
        const std::unique_ptr<Workbench> workbench = workbench_of(group);
        row.peak_flops = (settings_.is_bf16() ? workbench->half_rate() : workbench->float_rate()) * group.cards;
        row.calls = together_.calls();
        for (const step::Parameter& tensor : trainer_.parameters().list) row.parameters += tensor.count();
        row.parameter_bytes = trainer_.parameters().floats * sizeof(float);
        row.optimizer_bytes = 2 * trainer_.shard().count * sizeof(float);
        row.activation_bytes = before_gradients_ - row.parameter_bytes - row.optimizer_bytes;
        row.scratch_bytes = machine_.scratch_bytes();
        row.peak_after_init = after_init_;
        row.peak_before_optimizer = machine_.peak_before_optimizer();
        row.peak = machine_.peak_bytes();
        if (compares_after_ < 0) return;
        const size_t floats = trainer_.parameters().floats;
        row.compared = machine_.compared(machine_.floats(floats).get(), trainer_.weights(), floats);
    }

private:
    std::string crc32_of_parameters() {
        std::vector<float> parameters(trainer_.parameters().floats);
        machine_.get(parameters.data(), trainer_.weights(), parameters.size());
        return OutputChecksum::of(parameters.data(), parameters.size() * sizeof(float));
    }
    void step(bool each_operation) {
        machine_.begin_step(each_operation);
        ++steps_;
        together_.step(steps_, drawn_batch(settings_, steps_));
        seconds_ = machine_.end_step();
    }

    const step::Configuration settings_;
    const int64_t compares_after_; // steps; -1: never
    const int64_t micro_batch_;
    const bool phases_alone_;
    MeasuredMachine machine_; // everything below uses its memory
    step::Trainer trainer_;
    const size_t before_gradients_ = machine_.peak_bytes();
    step::DataParallel together_;
    int64_t steps_ = 0;
    size_t after_init_ = 0;
    MeasuredMachine::Seconds seconds_; // for the last step
};

JsonFields statistics(const std::vector<double>& seconds) {
    JsonFields fields;
    fields.add("mean", seconds.empty() ? "null" : json_number(mean(seconds)));
    fields.add("std", seconds.empty() ? "null" : json_number(deviation(seconds)));
    fields.add("samples", numbers_json(seconds));
    return fields;
}

std::string phase_json(const StepRow& row, StepPhase phase) {
    JsonFields fields = statistics(row.of_phase[static_cast<size_t>(phase)]);
    JsonFields operations;
    for (const StepOperation operation : kStepOperations) {
        const MeasuredMachine::Operations& of =
            row.operations.of_operation[static_cast<size_t>(phase)][static_cast<size_t>(operation)];
        if (of.calls == 0) continue;
        JsonFields one;
        one.add("seconds", json_number(of.seconds));
        one.add("calls", int64_t{of.calls});
        operations.add_nested(name_of(operation), one.text());
    }
    fields.add_nested("operations", operations.text());
    return fields.text();
}

double mebibytes(size_t bytes) { return static_cast<double>(bytes) / 1048576; }

// "12.3 ± 0.4", milliseconds
std::string mean_and_deviation(const std::vector<double>& seconds) {
    if (seconds.empty()) return "-";
    return with_digits("%.1f", mean(seconds) * 1e3) + "+-" + with_digits("%.1f", deviation(seconds) * 1e3);
}

// "#   forward: products 61.2 % in 49 calls, attention ...", a line for each phase, and what else a row says.
std::string more_lines(const StepRow& row) {
    std::string text;
    for (const StepPhase phase : kStepPhases) {
        const auto& operations = row.operations.of_operation[static_cast<size_t>(phase)];
        double all = 0;
        for (const auto& of : operations) all += of.seconds;
        std::string line;
        for (const StepOperation operation : kStepOperations)
            if (const auto& of = operations[static_cast<size_t>(operation)]; of.calls > 0)
                line += std::string(line.empty() ? "" : ", ") + name_of(operation) + " " +
                        with_digits("%.1f %%", of.seconds / all * 100) + " in " + std::to_string(of.calls);
        text += std::string("#   ") + name_of(phase) + ": " + line + "\n";
    }
    text += "#   MiB in use at most: forward alone " + with_digits("%.1f", mebibytes(row.in_forward.peak)) + ", step " +
            with_digits("%.1f", mebibytes(row.in_step.peak));
    if (row.against_one_rank > 0)
        text += "; " + with_digits("%.2f", row.against_one_rank) + " times the tokens/s of one rank";
    return text + "\n";
}

} // namespace

step::Configuration StepCell::settings() const {
    step::Configuration settings;
    settings.contract = contract;
    settings.model = model->model;
    settings.batch = batch_size;
    settings.context = seq_len;
    return settings;
}

double flops_of(const StepCell& cell) {
    const step::Model& model = cell.model->model;
    const auto tokens = static_cast<double>(cell.batch_size * cell.seq_len);
    const double terms = static_cast<double>(model.layers) * static_cast<double>(model.width) *
                             static_cast<double>(4 * model.width + 3 * model.hidden) +
                         static_cast<double>(model.vocabulary * model.width);
    const double attention =
        2 * tokens * static_cast<double>(cell.seq_len) * static_cast<double>(model.width * model.layers);
    return 3 * 2 * tokens * terms + 3.5 * attention;
}

double StepRow::tokens_per_second() const {
    return static_cast<double>(cell.batch_size * cell.seq_len) / mean(seconds);
}

double StepRow::flop_rate() const { return flops_of(cell) / mean(seconds); }

double StepRow::communication_share() const {
    if (group.ranks == 1) return 0;
    double computing = 0;
    for (const std::vector<double>& phase : of_phase) computing += mean(phase);
    return std::max(0.0, 1 - computing / mean(seconds));
}

StepRow measure_step(const StepCell& cell, const RankGroup& group, Ranks& ranks, Collectives& collectives) {
    StepRow row;
    row.cell = cell;
    row.group = group;
    if (cell.one_rank && ranks.count() > 1) { // the others wait
        OneRank alone;
        const RankGroup of_one = {1, 1, std::min(group.cards, 1), group.device, ""};
        if (ranks.is_first()) row = measure_step(cell, of_one, alone, *alone.collectives());
        row.outcome = agreed_outcome(ranks, row.outcome);
        return row;
    }
    if (group.device == "cpu") row.kernel = step::supported_kernels().back()->name;
    std::optional<MeasuredStep> step;
    row.outcome = agreed_outcome(ranks, [&] { step.emplace(cell, group, ranks); });
    if (row.outcome.status != Status::ok) return row;
    std::vector<double> seconds;
    row.outcome = agreed_outcome(
        ranks, [&] { seconds = slowest_seconds(ranks, collectives, cell.rules, [&] { step->run(row); }); });
    if (row.outcome.status != Status::ok) return row;
    row.seconds = seconds;
    const auto largest = [&](std::vector<double>& samples) { // over the timed samples, which are the last
        samples.erase(samples.begin(), samples.end() - static_cast<std::ptrdiff_t>(seconds.size()));
        samples = largest_of_ranks(ranks, samples);
    };
    largest(row.communicating);
    for (std::vector<double>& phase : row.of_phase) largest(phase);
    row.outcome = agreed_outcome(ranks, [&] { step->finish(row, group); });
    return row;
}

std::string words_of(const StepCell& cell) {
    std::string words = std::string(cell.model->name) + " B " + std::to_string(cell.batch_size) + " N " +
                        std::to_string(cell.seq_len) + " warmup " + std::to_string(cell.rules.warmup);
    if (cell.contract != &kF32) words += std::string(" ") + cell.contract->name;
    if (cell.attention == StepAttention::naive) words += " naive";
    return words + (cell.shard ? " sharded" : "");
}

std::string step_head(const RankGroup& group) {
    return "# " + words_of(group) +
           "; mean and standard deviation in ms\n"
           "#  model  contract  batch  tokens  warmup  attention         way     MiB  shard     forward        backward"
           "       optimizer            step  comm %  tokens/s   GFLOP/s  of peak  peak MiB  status\n";
}

std::string step_line(const StepRow& row) {
    const bool ok = row.outcome.status == Status::ok;
    const StepCell& cell = row.cell;
    if (ok && cell.operations) return "# " + words_of(cell) + "\n" + operations_table(row.compared, cell.model->model);
    const bool several = row.group.ranks > 1;
    const auto number = [&](const char* format, double value) { return ok ? with_digits(format, value) : "-"; };
    const auto phase = [&](StepPhase of) { return mean_and_deviation(row.of_phase[static_cast<size_t>(of)]); };
    const size_t bucket = cell.way.bucket_bytes;
    char line[256];
    std::snprintf(
        line, sizeof line,
        "%8s  %8s  %5lld  %6lld  %6d  %9s  %10s  %6s  %5s  %14s  %14s  %14s  %14s  %6s  %8s  %8s  %7s  %8s  ",
        cell.model->name, cell.contract->name, static_cast<long long>(cell.batch_size),
        static_cast<long long>(cell.seq_len), cell.rules.warmup, name_of(cell.attention),
        several ? name_of(cell.way.kind) : "-",
        several && bucket > 0 ? with_digits("%.4g", mebibytes(bucket)).c_str() : "-", cell.shard ? "yes" : "no",
        ok ? phase(StepPhase::forward).c_str() : "-", ok ? phase(StepPhase::backward).c_str() : "-",
        ok ? phase(StepPhase::optimizer).c_str() : "-", mean_and_deviation(row.seconds).c_str(),
        several && ok ? with_digits("%.1f", row.communication_share() * 100).c_str() : "-",
        number("%.0f", ok ? row.tokens_per_second() : 0).c_str(),
        number("%.1f", ok ? row.flop_rate() * 1e-9 : 0).c_str(),
        ok && row.peak_flops > 0 ? with_digits("%.1f %%", row.flop_rate() / row.peak_flops * 100).c_str() : "-",
        number("%.1f", mebibytes(row.peak)).c_str());
    if (!ok) return line + (name_of(row.outcome.status) + (": " + row.outcome.reason)) + "\n";
    return line + ("ok: " + (row.kernel.empty() ? row.group.device : row.kernel)) + "\n" + more_lines(row);
}

std::string step_json(const StepRow& row) {
    const bool ok = row.outcome.status == Status::ok;
    const StepCell& cell = row.cell;
    const bool several = row.group.ranks > 1;
    const auto known = [&](const std::string& text) { return ok ? text : "null"; };
    JsonFields fields;
    fields.add("model", json_string(cell.model->name));
    fields.add("contract", json_string(cell.contract->name));
    fields.add("batch_size", cell.batch_size);
    fields.add("seq_len", cell.seq_len);
    fields.add("micro_batch", cell.micro_batch > 0 ? std::to_string(cell.micro_batch) : "null");
    fields.add("way", several ? json_string(name_of(cell.way.kind)) : "null");
    fields.add("bucket_bytes", several && cell.way.bucket_bytes > 0 ? std::to_string(cell.way.bucket_bytes) : "null");
    fields.add("shard", cell.shard ? "true" : "false");
    fields.add("attention", json_string(name_of(cell.attention)));
    fields.add("warmup", int64_t{cell.rules.warmup});
    fields.add("threads", int64_t{cell.threads});
    add_group(fields, row.group);
    fields.add("kernel", text_or_null(row.kernel));
    fields.add("status", json_string(name_of(row.outcome.status)));
    fields.add("reason", text_or_null(row.outcome.reason));
    if (cell.operations) {
        fields.add_nested("operations", operations_json(row.compared, cell.model->model));
        return fields.text();
    }
    fields.add("parameters", known(std::to_string(row.parameters)));
    fields.add("calls", known(std::to_string(row.calls)));
    fields.add("steps", known(std::to_string(row.steps)));
    fields.add("parameters_crc32", text_or_null(row.parameters_crc32));
    fields.add_nested("step", statistics(row.seconds).text());
    for (const StepPhase phase : kStepPhases) fields.add_nested(name_of(phase), phase_json(row, phase));
    fields.add_nested("in_calls", statistics(row.communicating).text());
    fields.add("communication_share", known(json_number(ok ? row.communication_share() : 0)));
    fields.add("tokens_per_s", known(json_number(ok ? row.tokens_per_second() : 0)));
    fields.add("flop", json_number(flops_of(cell)));
    fields.add("gflop_per_s", known(json_number(ok ? row.flop_rate() * 1e-9 : 0)));
    fields.add("of_peak", ok && row.peak_flops > 0 ? json_number(row.flop_rate() / row.peak_flops) : "null");
    JsonFields bytes;
    const size_t others = row.parameter_bytes + row.optimizer_bytes + row.activation_bytes + row.scratch_bytes;
    bytes.add("parameters", known(std::to_string(row.parameter_bytes)));
    bytes.add("optimizer", known(std::to_string(row.optimizer_bytes)));
    bytes.add("activations", known(std::to_string(row.activation_bytes)));
    bytes.add("scratch", known(std::to_string(row.scratch_bytes)));
    bytes.add("gradients", known(std::to_string(row.peak - others)));
    fields.add_nested("bytes", bytes.text());
    const std::pair<const char*, size_t> peaks[] = {{"peak_after_init_bytes", row.peak_after_init},
                                                    {"peak_before_optimizer_bytes", row.peak_before_optimizer},
                                                    {"peak_bytes", row.peak},
                                                    {"in_use_in_forward_bytes", row.in_forward.peak},
                                                    {"in_use_in_step_bytes", row.in_step.peak}};
    for (const auto& [name, peak] : peaks) fields.add(name, known(std::to_string(peak)));
    fields.add("against_one_rank", row.against_one_rank > 0 ? json_number(row.against_one_rank) : "null");
    return fields.text();
}

} // namespace hw4::bench
