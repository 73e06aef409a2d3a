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

std::vector<const Model*> parse_models(const std::string& text) {
    std::vector<const Model*> found;
    for (const std::string& word : split_at_commas(text)) {
        const auto is_it = [&](const Model& model) { return word == model.name; };
        const auto model = std::find_if(models().begin(), models().end(), is_it);
        if (model == models().end()) {
            std::vector<std::string> names;
            for (const Model& known : models()) names.emplace_back(known.name);
            refuse_name("model", text, word, "some of ", names);
        }
        found.push_back(&*model);
    }
    return found;
}

// The options of all measurements of several ranks, and `own`.
void parse_for_ranks(int argc, char** argv, CollectiveRequest& request, std::vector<CommandOption> own) {
    constexpr int kMostContributions = 1024;
    CollectiveRules& rules = request.rules;
    const auto warmup = [&](const char* value) {
        const std::vector<int> warmups = parse_warmups(value);
        if (warmups.size() > 1) refuse_value("warmup", value, "one number");
        rules.warmup = warmups.front();
    };
    const auto contributions = [&](const char* value) {
        request.contributions = parse_count("contributions", value, kMostContributions);
    };
    own.insert(
        own.end(),
        {{"via", kValue, [&](const char* value) { request.vias = parse_named("via", value, kEveryVia); }},
         {"contributions", kValue, contributions},
         {"device", kValue, [&](const char* value) { request.device = parse_device(value); }},
         {"warmup", kValue, warmup},
         {"repeats", kValue, [&](const char* value) { rules.repeats = parse_count("repeats", value, kMostRepeats); }},
         {"limit", kValue, [&](const char* value) { rules.limit_s = parse_seconds(value); }},
         {"output", kValue, [&](const char* value) { request.output = parse_json_name(value); }},
         flag("quiet", request.quiet)});
    request.action = take_options(argc, argv, own, usage_error);
    if (request.action == Action::run && optind < argc)
        usage_error("'" + std::string(argv[optind]) + "': need options alone");
}

} // namespace

AllreduceRequest parse_allreduce(int argc, char** argv) {
    AllreduceRequest request;
    request.sizes = parse_byte_sizes("sizes", "1m..1g*10");
    const auto sizes = [&](const char* value) { request.sizes = parse_byte_sizes("sizes", value); };
    parse_for_ranks(argc, argv, request, {{"sizes", kValue, sizes}});
    return request;
}

GradientsRequest parse_gradients(int argc, char** argv) {
    GradientsRequest request;
    request.models = {&models().front()};
    request.buckets = parse_byte_sizes("buckets", "1m..1g*10");
    constexpr SyncWay::Kind kWaysToAsk[] = {SyncWay::Kind::naive, SyncWay::Kind::flat, SyncWay::Kind::overlapped};
    const auto count = [](const char* name, auto& to, int most) {
        return CommandOption{name, kValue, [=, &to](const char* value) { to = parse_count(name, value, most); }};
    };
    const auto ways = [&](const char* value) { request.ways = parse_named("ways", value, kWaysToAsk); };
    const auto buckets = [&](const char* value) { request.buckets = parse_byte_sizes("buckets", value); };
    parse_for_ranks(argc, argv, request,
                    {{"model", kValue, [&](const char* value) { request.models = parse_models(value); }},
                     {"ways", kValue, ways},
                     {"buckets", kValue, buckets},
                     count("batch_size", request.batch_size, 1 << 20),
                     count("seq_len", request.seq_len, 1 << 20),
                     count("threads", request.threads, kMostThreads)});
    return request;
}

} // namespace hw4::bench

namespace hw4 {
namespace {

using bench::RankGroup;
using bench::SyncWay;

constexpr const char* kName = "hw4 bench"; // in remarks

// "gpu" or "cpu", the same for all: a GPU only where every rank has one.
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

// What the ranks have in common, and the first one's table and files, complete after each row.
class RanksReport {
public:
    RanksReport(const bench::CollectiveRequest& request, std::vector<std::string> argv, Ranks& ranks)
        : ranks_(ranks), request_(request) {
        if (!ranks.why_no_case().empty()) throw Error(ExitCode::usage, ranks.why_no_case()); // a rank by itself
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

// Backward alone, which the others are measured against, and what is asked for.
std::vector<std::pair<SyncWay, bench::Via>> ways_of(const bench::GradientsRequest& request) {
    std::vector<std::pair<SyncWay, bench::Via>> ways = {{{SyncWay::Kind::none, 0}, bench::Via::mpi}};
    for (const bench::Via via : request.vias)
        for (const SyncWay::Kind kind : request.ways) {
            if (kind != SyncWay::Kind::overlapped) {
                ways.push_back({{kind, 0}, via});
                continue;
            }
            for (const int64_t bytes : request.buckets) ways.push_back({{kind, static_cast<size_t>(bytes)}, via});
        }
    return ways;
}

} // namespace

ExitCode run_allreduce(const bench::AllreduceRequest& request, std::vector<std::string> argv, Ranks& ranks) {
    RanksReport report(request, std::move(argv), ranks);
    report.say(bench::allreduce_head(report.group()));
    for (const bench::Via via : request.vias)
        for (const int64_t bytes : request.sizes) {
            const bench::AllreduceRow row = bench::measure_allreduce({via, bytes, request.contributions, request.rules},
                                                                     report.group(), ranks, report.collectives());
            report.add(row.outcome, bench::allreduce_line(row), bench::allreduce_json(row));
        }
    return report.finish();
}

ExitCode run_gradients(const bench::GradientsRequest& request, std::vector<std::string> argv, Ranks& ranks) {
    RanksReport report(request, std::move(argv), ranks);
    bench::GradientsCell cell;
    cell.batch_size = request.batch_size;
    cell.seq_len = request.seq_len;
    cell.contributions = request.contributions;
    cell.rules = request.rules;
    const int processors = share_of_processors(ranks, available_processors(), allowed_processors());
    cell.threads = request.threads > 0 ? request.threads : processors;
    for (const bench::Model* const model : request.models) {
        cell.model = model;
        report.say(bench::gradients_head(report.group(), *model));
        bench::GradientSteps steps(cell, report.group(), ranks, report.collectives());
        for (const auto& [way, via] : ways_of(request)) {
            cell.way = way;
            cell.via = via;
            const bench::GradientsRow row = steps.measure(cell);
            report.add(row.outcome, bench::gradients_line(row), bench::gradients_json(row));
        }
    }
    return report.finish();
}

} // namespace hw4
