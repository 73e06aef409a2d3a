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
#include "src/bench/row_json.h"
#include "src/gpu/engine.h"
#include "src/io/output_file.h"
#include "src/io/run_files.h"
#include "src/ranks/agree.h"

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
            RunFiles files;
            for (const std::string& path : {request.output, request.csv})
                if (!path.empty() && ranks.is_first()) files.add_output(path);
            lines_ = files.has_standard_output() ? stderr : stdout;
            json_ = std::make_unique<GrowingFile>(ranks.is_first() ? request.output : "", *interrupts_);
            csv_ = std::make_unique<GrowingFile>(ranks.is_first() ? request.csv : "", *interrupts_);
        });
        frame_.argv = std::move(argv);
        device_ = common_device(request.device, request.quiet, ranks);
        collectives_ = ranks.collectives();
        agree(ranks, [&] {
            frame_.machine = (device_ == "gpu" ? bench::gpu_workbench() : bench::cpu_workbench(1))->machine_json();
        });
        group_ = bench::group_of(ranks, device_, collectives_->library());
    }

    const RankGroup& group() const { return group_; }
    Collectives& collectives() const { return *collectives_; }

    void begin(const std::string& csv_head) {
        agree(ranks_, [&] {
            json_->begin(bench::list_start(frame_), bench::kListEnd);
            csv_->begin(csv_head, "");
        });
    }
    void say(const std::string& text) const {
        if (request_.quiet || !ranks_.is_first()) return;
        std::fputs(text.c_str(), lines_);
        std::fflush(lines_);
    }
    void add(const bench::Outcome& outcome, const std::string& line, const std::string& csv, const std::string& json) {
        say(line);
        agree(ranks_, [&] {
            json_->add((ending_.cells() == 0 ? "" : ",\n  ") + indented(json));
            csv_->add(csv);
        });
        ending_.add(outcome.status, outcome.reason);
    }
    ExitCode finish() {
        agree(ranks_, [&] {
            json_->finish();
            csv_->finish();
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
    std::unique_ptr<GrowingFile> csv_;
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
    report.begin(bench::allreduce_csv_head());
    report.say(bench::allreduce_head(report.group()));
    for (const bench::Via via : request.vias)
        for (const int64_t bytes : request.sizes) {
            const bench::AllreduceRow row = bench::measure_allreduce({via, bytes, request.contributions, request.rules},
                                                                     report.group(), ranks, report.collectives());
            report.add(row.outcome, bench::allreduce_line(row), bench::allreduce_csv(row), bench::allreduce_json(row));
        }
    return report.finish();
}

ExitCode run_gradients(const bench::GradientsRequest& request, std::vector<std::string> argv, Ranks& ranks) {
    RanksReport report(request, std::move(argv), ranks);
    report.begin(bench::gradients_csv_head());
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
            report.add(row.outcome, bench::gradients_line(row), bench::gradients_csv(row), bench::gradients_json(row));
        }
    }
    return report.finish();
}

} // namespace hw4
