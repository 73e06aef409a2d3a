#include "src/commands/bench_collectives.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "src/base/interrupt.h"
#include "src/base/json.h"
#include "src/base/parallel.h"
#include "src/base/standard_streams.h"
#include "src/bench/allreduce.h"
#include "src/bench/cell.h"
#include "src/bench/row_json.h"
#include "src/commands/bench_values.h"
#include "src/gpu/engine.h"
#include "src/io/output_file.h"
#include "src/io/run_files.h"
#include "src/ranks/agree.h"

namespace hw4::bench {
namespace {

constexpr int kValue = required_argument;

// Sizes of vectors and buckets.
std::vector<int64_t> parse_byte_sizes(const char* option, const std::string& text) {
    constexpr int64_t kMostBytes = int64_t{1} << 36;
    return parse_numbers(option, text, sizeof(float), kMostBytes);
}

// The elements of `all` that the text names.
template <class Named>
std::vector<const Named*> parse_presets(const char* option, const std::string& text, const std::vector<Named>& all) {
    std::vector<const Named*> found;
    for (const std::string& word : split(text, ',')) {
        const auto is_it = [&](const Named& one) { return word == one.name; };
        const auto one = std::find_if(all.begin(), all.end(), is_it);
        if (one == all.end()) {
            std::vector<std::string> names;
            for (const Named& known : all) names.emplace_back(known.name);
            refuse_name(option, text, word, "some of ", names);
        }
        found.push_back(&*one);
    }
    return found;
}

// Parses the options of all measurements of several ranks, and `own`.
void parse_for_ranks(int argc, char** argv, CollectiveRequest& request, std::vector<CommandOption> own) {
    CollectiveRules& rules = request.rules;
    own.insert(own.end(), {{"device", kValue, [&](const char* value) { request.device = parse_device(value); }},
                           {"warmup", kValue, [&](const char* value) { request.warmups = parse_warmups(value); }},
                           {"repeats", kValue,
                            [&](const char* value) { rules.repeats = parse_count("repeats", value, kMostRepeats); }},
                           {"limit", kValue, [&](const char* value) { rules.limit_s = parse_seconds(value); }},
                           {"output", kValue, [&](const char* value) { request.output = parse_json_name(value); }},
                           flag("quiet", request.quiet)});
    request.action = take_options(argc, argv, own, usage_error);
    if (request.action == Action::run && optind < argc)
        usage_error("'" + std::string(argv[optind]) + "': need options alone");
}

// The values, or where the list is empty all of them.
template <class Value>
void take_if_none(std::vector<Value>& values, const std::vector<Value>& others) {
    if (values.empty()) values = others;
}

} // namespace

AllreduceRequest parse_allreduce(int argc, char** argv) {
    AllreduceRequest request;
    request.sizes = parse_byte_sizes("sizes", "1m..1g*10");
    parse_for_ranks(argc, argv, request,
                    {{"sizes", kValue, [&](const char* value) { request.sizes = parse_byte_sizes("sizes", value); }},
                     {"via", kValue, [&](const char* value) { request.vias = parse_named("via", value, kEveryVia); }}});
    if (request.warmups.size() > 1) usage_error("--warmup: need one number");
    if (!request.warmups.empty()) request.rules.warmup = request.warmups.front();
    return request;
}

const std::vector<StepPreset>& step_presets() {
    static const std::vector<StepPreset> list = {
        {"cs336-step", "contexts 128 to 1024 of small, after 5 warm-up steps", "small", {128, 256, 512, 1024}, {5}},
        {"cs336-warmup", "small, context 128, after 0, 1, 2 and 5 warm-up steps", "small", {128}, {0, 1, 2, 5}},
    };
    return list;
}

StepRequest parse_step(int argc, char** argv) {
    using Kind = step::SyncWay::Kind;
    constexpr Kind kEveryWay[] = {Kind::naive, Kind::flat, Kind::bucketed, Kind::overlapped};
    StepRequest request;
    request.rules.repeats = 10;
    request.rules.limit_s = 60;
    const StepPreset* preset = nullptr;
    const auto list = [](const char* name, std::vector<int64_t>& to, int64_t least, int64_t most) {
        return CommandOption{name, kValue,
                             [=, &to](const char* value) { to = parse_numbers(name, value, least, most); }};
    };
    const auto count = [](const char* name, auto& to, int most) {
        return CommandOption{name, kValue, [=, &to](const char* value) { to = parse_count(name, value, most); }};
    };
    const auto models = [&](const char* value) { request.models = parse_presets("model", value, step::presets()); };
    const auto presets = [&](const char* value) { preset = parse_presets("preset", value, step_presets()).front(); };
    parse_for_ranks(
        argc, argv, request,
        {{"model", kValue, models},
         {"preset", kValue, presets},
         {"contract", kValue,
          [&](const char* value) { request.contracts = parse_named("contract", value, step::kStepContracts); }},
         {"ways", kValue, [&](const char* value) { request.ways = parse_named("ways", value, kEveryWay); }},
         {"buckets", kValue, [&](const char* value) { request.buckets = parse_byte_sizes("buckets", value); }},
         list("seq_len", request.seq_lens, 1, 1 << 20),
         count("batch_size", request.batch_size, 1 << 20),
         count("micro_batch", request.micro_batch, 1 << 20),
         count("threads", request.threads, kMostThreads),
         flag("shard", request.shard)});
    if ((request.micro_batch & (request.micro_batch - 1)) != 0)
        usage_error("--micro_batch '" + std::to_string(request.micro_batch) + "': need a power of two");
    if (request.device == Device::automatic) request.device = Device::cpu; // as in hw4 train
    if (preset != nullptr) {
        if (request.models.empty()) models(preset->model);
        take_if_none(request.seq_lens, preset->seq_lens);
        take_if_none(request.warmups, preset->warmups);
    }
    take_if_none(request.models, {&step::presets().front()});
    take_if_none(request.warmups, {request.rules.warmup});
    take_if_none(request.ways, {std::begin(kEveryWay), std::end(kEveryWay)});
    take_if_none(request.buckets, parse_byte_sizes("buckets", "1m..1g*10"));
    return request;
}

std::vector<StepCell> StepRequest::cells(int ranks) const {
    using Kind = step::SyncWay::Kind;
    std::vector<step::SyncWay> asked;
    for (const Kind kind : ways)
        if (kind == Kind::naive || kind == Kind::flat)
            asked.push_back({kind, 0});
        else
            for (const int64_t bytes : buckets) asked.push_back({kind, static_cast<size_t>(bytes)});
    if (ranks == 1) asked = {{}};
    std::vector<StepCell> all;
    for (const step::Preset* const model : models)
        for (const int64_t seq_len : seq_lens.empty() ? std::vector<int64_t>{model->context} : seq_lens)
            for (const Contract* const contract : contracts)
                for (const int warmup : warmups)
                    for (const step::SyncWay& way : asked) {
                        StepCell cell{model, contract, way, shard, batch_size, seq_len, micro_batch, threads, rules};
                        cell.rules.warmup = warmup;
                        all.push_back(cell);
                    }
    return all;
}

} // namespace hw4::bench

namespace hw4 {
namespace {

using bench::RankGroup;

constexpr const char* kName = "hw4 bench"; // in messages

// "gpu" or "cpu", the same for all ranks: a GPU only where every rank has one.
std::string common_device(Device asked, bool quiet, Ranks& ranks) {
    if (asked == Device::cpu) return "cpu";
    const gpu::Unusable mine = gpu::unusable({}, ranks.node_rank());
    if (asked == Device::gpu) {
        agree(ranks, [&] {
            if (!mine.reason.empty()) throw Error(mine.code, "no usable GPU: " + mine.reason);
        });
        return "gpu";
    }
    const std::vector<std::string> reasons = ranks.exchange(mine.reason);
    const auto lacks_one = [](const std::string& reason) { return !reason.empty(); };
    const auto lacking = std::find_if(reasons.begin(), reasons.end(), lacks_one);
    if (lacking == reasons.end()) return "gpu";
    if (ranks.is_first() && !quiet) std::fprintf(stderr, "%s: using the CPU: %s\n", kName, lacking->c_str());
    return "cpu";
}

// The ranks' common part, and the first rank's table and files, complete after each row.
class RanksReport {
public:
    RanksReport(const bench::CollectiveRequest& request, std::vector<std::string> argv, Ranks& ranks)
        : ranks_(ranks), request_(request) {
        if (!ranks.why_no_case().empty()) throw Error(ExitCode::usage, ranks.why_no_case()); // a rank that is alone
        agree(ranks, [&] {
            interrupts_.emplace(ranks.is_first() ? kName : nullptr);
            lines_ = is_standard_stream(request.output) ? stderr : stdout;
            json_ = std::make_unique<GrowingFile>(ranks.is_first() ? request.output : "", *interrupts_);
        });
        frame_.argv = std::move(argv);
        device_ = common_device(request.device, request.quiet, ranks);
        collectives_ = ranks.collectives();
        agree(ranks, [&] {
            frame_.machine = (device_ == "gpu" ? bench::gpu_workbench() : bench::cpu_workbench(1))->machine_json();
        });
        group_ = bench::group_of(ranks, device_, collectives_->library());
        agree(ranks_, [&] { json_->begin(bench::list_start(frame_), bench::kListEnd); });
    }

    const RankGroup& group() const { return group_; }
    Collectives& collectives() const { return *collectives_; }

    void say(const std::string& text) const {
        if (request_.quiet || !ranks_.is_first()) return;
        std::fputs(text.c_str(), lines_);
        std::fflush(lines_);
    }
    void add(const bench::Outcome& outcome, const std::string& line, const std::string& json) {
        say(line);
        agree(ranks_, [&] { json_->add((ending_.cells() == 0 ? "" : ",\n  ") + indented(json)); });
        ending_.add(outcome.status, outcome.reason);
    }
    ExitCode finish() {
        agree(ranks_, [&] { json_->finish(); });
        if (const std::string why = ending_.why(); !why.empty() && ranks_.is_first())
            std::fprintf(stderr, "%s: %s\n", kName, why.c_str());
        return ending_.code();
    }

private:
    Ranks& ranks_;
    const bench::CollectiveRequest& request_;
    FILE* lines_ = stdout;
    std::optional<InterruptGuard> interrupts_;
    std::unique_ptr<GrowingFile> json_;
    bench::Frame frame_;
    std::string device_;
    std::unique_ptr<Collectives> collectives_;
    RankGroup group_;
    bench::Ending ending_;
};

} // namespace

ExitCode run_allreduce(const bench::AllreduceRequest& request, std::vector<std::string> argv, Ranks& ranks) {
    RanksReport report(request, std::move(argv), ranks);
    report.say(bench::allreduce_head(report.group()));
    for (const bench::Via via : request.vias)
        for (const int64_t bytes : request.sizes) {
            const int contributions = std::max(bench::AllreduceCell().contributions, ranks.count());
            const bench::AllreduceRow row = bench::measure_allreduce({via, bytes, contributions, request.rules},
                                                                     report.group(), ranks, report.collectives());
            report.add(row.outcome, bench::allreduce_line(row), bench::allreduce_json(row));
        }
    return report.finish();
}

ExitCode run_step(const bench::StepRequest& request, std::vector<std::string> argv, Ranks& ranks) {
    RanksReport report(request, std::move(argv), ranks);
    const int processors = share_of_processors(ranks, available_processors(), allowed_processors());
    report.say(bench::step_head(report.group()));
    for (bench::StepCell cell : request.cells(ranks.count())) {
        if (cell.threads == 0) cell.threads = processors;
        const bench::StepRow row = bench::measure_step(cell, report.group(), ranks, report.collectives());
        report.add(row.outcome, bench::step_line(row), bench::step_json(row));
    }
    return report.finish();
}

} // namespace hw4
