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
#include "src/bench/memory_timeline.h"
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
    request.action = take_options(argc, argv, own);
    if (request.action == Action::run && optind < argc)
        usage_error("'" + std::string(argv[optind]) + "': need options alone");
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
    const std::string five = "--model small,medium,large,xl,2.7B ";
    static const std::vector<StepPreset> list = {
        {"cs336-step", "the five models, contexts 128 to 1024", five + "--seq_len 128..1k"},
        {"cs336-warmup", "small, context 128, after 0, 1, 2 and 5 warm-up steps", "--seq_len 128 --warmup 0,1,2,5"},
        {"cs336-precision", "the five models, context 512, float32 and bf16",
         five + "--seq_len 512 --contract f32,bf16"},
        {"cs336-naive", "small, contexts 128 to 1024, attention hw4's own and naive",
         "--seq_len 128..1k --attention ours,naive"},
        {"cs336-memory", "2.7B, contexts 128, 256 and 512, a step for --memory",
         "--model 2.7B --seq_len 128..512 --warmup 1 --repeats 1"},
        {"cs336-ddp", "xl, context 128: each way to add up gradients, buckets of 1 to 1000 MiB, beside one rank",
         "--model xl --seq_len 128 --one_rank"},
        {"cs336-shard", "xl, context 128: the optimizer whole and sharded",
         "--model xl --seq_len 128 --ways flat --shard=both"},
    };
    return list;
}

namespace {

// `preset`: the one that is named, if any.
StepRequest parse_step_words(int argc, char** argv, const StepPreset*& preset) {
    using Kind = step::SyncWay::Kind;
    constexpr Kind kEveryWay[] = {Kind::naive, Kind::flat, Kind::bucketed, Kind::overlapped};
    constexpr StepAttention kEveryAttention[] = {StepAttention::ours, StepAttention::naive};
    StepRequest request;
    request.rules.repeats = 10;
    request.rules.limit_s = 60;
    request.models = {&step::presets().front()};
    request.warmups = {request.rules.warmup};
    request.ways = {std::begin(kEveryWay), std::end(kEveryWay)};
    request.buckets = parse_byte_sizes("buckets", "1m..1g*10");
    const auto count = [](const char* name, auto& to, int most) {
        return CommandOption{name, kValue, [=, &to](const char* value) { to = parse_count(name, value, most); }};
    };
    parse_for_ranks(
        argc, argv, request,
        {{"model", kValue, [&](const char* value) { request.models = parse_presets("model", value, step::presets()); }},
         {"preset", kValue, [&](const char* value) { preset = parse_preset(value, step_presets()); }},
         {"contract", kValue,
          [&](const char* value) { request.contracts = parse_named("contract", value, step::kStepContracts); }},
         {"attention", kValue,
          [&](const char* value) { request.attentions = parse_named("attention", value, kEveryAttention); }},
         {"ways", kValue, [&](const char* value) { request.ways = parse_named("ways", value, kEveryWay); }},
         {"buckets", kValue, [&](const char* value) { request.buckets = parse_byte_sizes("buckets", value); }},
         {"seq_len", kValue,
          [&](const char* value) { request.seq_lens = parse_numbers("seq_len", value, 1, 1 << 20); }},
         {"memory", kValue, [&](const char* value) { request.memory = parse_pickle_name(value); }},
         {"shard", optional_argument, [&](const char* value) { request.shards = parse_yes_or_no("shard", value); }},
         count("batch_size", request.batch_size, 1 << 20),
         count("micro_batch", request.micro_batch, 1 << 20),
         count("threads", request.threads, kMostThreads),
         flag("one_rank", request.one_rank),
         {"operations", no_argument, [&](const char*) {
              request.operations = true;
              request.warmups = {1};
              request.rules.repeats = 3;
          }}});
    if ((request.micro_batch & (request.micro_batch - 1)) != 0)
        usage_error("--micro_batch '" + std::to_string(request.micro_batch) + "': need a power of two");
    const std::vector<const Contract*>& contracts = request.contracts;
    if (request.operations &&
        (request.device == Device::cpu || std::find(contracts.begin(), contracts.end(), &kBf16) != contracts.end()))
        usage_error("--operations: need --device gpu and --contract f32");
    if (request.device == Device::automatic) // as in hw4 train
        request.device = request.operations ? Device::gpu : Device::cpu;
    return request;
}

} // namespace

StepRequest parse_step(int argc, char** argv) {
    const StepPreset* preset = nullptr;
    StepRequest request = parse_step_words(argc, argv, preset);
    if (preset == nullptr || request.action != Action::run) return request;
    std::vector<std::string> options = split(preset->options, ' ');
    std::vector<char*> words = {argv[0]};
    for (std::string& option : options) words.push_back(option.data());
    words.insert(words.end(), argv + 1, argv + argc);
    words.push_back(nullptr);
    return parse_step_words(static_cast<int>(words.size()) - 1, words.data(), preset);
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
    StepCell cell;
    cell.batch_size = batch_size;
    cell.micro_batch = micro_batch;
    cell.threads = threads;
    cell.operations = operations;
    cell.rules = rules;
    const auto for_ways = [&] {
        if (one_rank && ranks > 1) all.push_back(cell);
        if (one_rank && ranks > 1) all.back().one_rank = true;
        for (const bool shard : shards)
            for (const step::SyncWay& way : asked) {
                all.push_back(cell);
                all.back().way = way;
                all.back().shard = shard;
            }
    };
    for (const step::Preset* const model : models)
        for (const int64_t seq_len : seq_lens.empty() ? std::vector<int64_t>{model->context} : seq_lens)
            for (const Contract* const contract : contracts)
                for (const StepAttention attention : attentions)
                    for (const int warmup : warmups) {
                        cell.model = model;
                        cell.contract = contract;
                        cell.seq_len = seq_len;
                        cell.attention = attention;
                        cell.rules.warmup = warmup;
                        for_ways();
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
            RunFiles files;
            for (const std::string& path : {request.output, request.memory})
                if (!path.empty()) files.add_output(path);
            lines_ = files.lines();
            json_ = std::make_unique<GrowingFile>(ranks.is_first() ? request.output : "", *interrupts_);
            memory_ = std::make_unique<GrowingFile>(ranks.is_first() ? request.memory : "", *interrupts_);
        });
        frame_.argv = std::move(argv);
        device_ = common_device(request.device, request.quiet, ranks);
        collectives_ = ranks.collectives();
        agree(ranks, [&] {
            frame_.machine = (device_ == "gpu" ? bench::gpu_workbench() : bench::cpu_workbench(1))->machine_json();
        });
        group_ = bench::group_of(ranks, device_, collectives_->library());
        agree(ranks_, [&] {
            json_->begin(bench::list_start(frame_), bench::kListEnd);
            memory_->begin(picture_.start(), picture_.end());
        });
    }

    const RankGroup& group() const { return group_; }
    Collectives& collectives() const { return *collectives_; }

    void say(const std::string& text) const {
        if (request_.quiet || !ranks_.is_first()) return;
        std::fputs(text.c_str(), lines_);
        std::fflush(lines_);
    }
    void add(const bench::Outcome& outcome, const std::string& line, const std::string& json,
             const std::vector<bench::MemoryTrack>& tracks = {}) {
        say(line);
        agree(ranks_, [&] {
            json_->add((ending_.cells() == 0 ? "" : ",\n  ") + indented(json));
            for (const bench::MemoryTrack& track : tracks) memory_->add(picture_.next(track));
        });
        ending_.add(outcome.status, outcome.reason);
    }
    ExitCode finish() {
        agree(ranks_, [&] {
            json_->finish();
            memory_->finish();
        });
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
    std::unique_ptr<GrowingFile> memory_;
    bench::MemoryPicture picture_;
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
    if (request.operations && ranks.count() > 1)
        agree(ranks, [] { throw Error(ExitCode::usage, "bench step --operations is for one process"); });
    RanksReport report(request, std::move(argv), ranks);
    const int processors = share_of_processors(ranks, available_processors(), allowed_processors());
    if (!request.operations) report.say(bench::step_head(report.group()));
    double of_one = 0; // tokens/s of the last row by one rank, which rows by several follow
    for (bench::StepCell cell : request.cells(ranks.count())) {
        if (cell.threads == 0) cell.threads = processors;
        bench::StepRow row = bench::measure_step(cell, report.group(), ranks, report.collectives());
        const double tokens = row.seconds.empty() ? 0 : row.tokens_per_second();
        if (cell.one_rank)
            of_one = tokens;
        else if (of_one > 0)
            row.against_one_rank = tokens / of_one;
        std::vector<bench::MemoryTrack> tracks;
        if (row.outcome.status == bench::Status::ok)
            tracks = {{bench::words_of(cell), "forward", row.in_forward.events},
                      {bench::words_of(cell), "step", row.in_step.events}};
        const bool shown = ranks.is_first(); // the others may have no times
        report.add(row.outcome, shown ? bench::step_line(row) : "", shown ? bench::step_json(row) : "", tracks);
    }
    return report.finish();
}

} // namespace hw4
