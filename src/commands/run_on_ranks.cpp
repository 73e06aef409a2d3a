// Every step ends with agree(), whether it was done or has failed, so that no rank waits for one that has gone. What
// takes long, the computing, goes on to its end on all of them: only then is it known which flaw is the first.
#include "src/commands/run_on_ranks.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "src/base/host_memory.h"
#include "src/base/parallel.h"
#include "src/commands/engine_choice.h"
#include "src/commands/run.h"
#include "src/commands/run_steps.h"
#include "src/gpu/device/connections.h"
#include "src/gpu/engine.h"
#include "src/io/open_input.h"
#include "src/problem/words.h"
#include "src/ranks/agree.h"
#include "src/ranks/gathering.h"
#include "src/ranks/parcel.h"
#include "src/ranks/processors.h"
#include "src/ranks/thread_ranks.h"
#include "src/run/pipeline.h"
#include "src/run/run_report.h"
#include "src/run/shares.h"

namespace hw4 {
namespace {

// Not read and not written in any order. Throws Error (usage).
[[noreturn]] void refuse_one_way(const std::string& name, const char* what) {
    throw Error(ExitCode::usage, name + ": several ranks " + what + " at once, need a plain file: no pipe, no gzip");
}

class RankedRun {
public:
    RankedRun(const Options& options, Ranks& ranks, InterruptGuard& interrupts)
        : options_(options), names_(options.cases.front()), ranks_(ranks), interrupts_(interrupts), gathering_(ranks),
          processors_(share_of_processors(ranks, available_processors(), allowed_processors())) {
        if (options_.engine.threads == 0) options_.engine.threads = processors_;
    }

    void run() {
        agree(ranks_, [this] { open_input(); });
        refuse_other_inputs();
        agree(ranks_, [this] {
            if (ranks_.is_first()) make_outputs();
        });
        join_outputs();
        tell_sizes();
        compute();
        agree_on_data();
        agree(ranks_, [this] { finish_outputs(); });
        gather_reports();
        tell_who_took_the_cpu();
        agree(ranks_, [this] {
            if (ranks_.is_first()) publish();
        });
        tell_times();
    }

private:
    const Problem& problem() const { return input_->problem(); }
    bool is_timed() const { return options_.time || !options_.json.empty() || !options_.trace.empty(); }

    void open_input() {
        choice_.emplace(options_, ranks_.is_first());
        if (!options_.arrays.gradients().empty())
            throw Error(ExitCode::usage, "--dq, --dk and --dv: several ranks write one OUTPUT");
        if (!options_.arrays.given()) refuse_stream(names_.input, "several ranks read it at once");
        input_.emplace(open_case(options_));
        if (!input_->random_access()) refuse_one_way(input_->path(), "read it");
    }

    // Where the file system is not shared, some may see an older file, or another.
    void refuse_other_inputs() {
        std::vector<CaseReader::Sample> samples;
        agree(ranks_, [&] { samples = input_->samples(); });
        const std::string sizes = sizes_of(problem()).second;
        Parcel mine;
        mine.put(sizes);
        for (const CaseReader::Sample& sample : samples) mine.put(sample.crc32);
        OpenedParcel first(ranks_.exchange(mine.bytes()).front());
        agree(ranks_, [&] {
            const auto refuse = [&](const std::string& what) {
                throw Error(ExitCode::bad_data,
                            input_->path() + ": " + what + " for the first rank, need the same file");
            };
            const std::string of_first = first.take_text();
            if (sizes != of_first) refuse("is " + sizes + " here and " + of_first);
            for (const CaseReader::Sample& sample : samples)
                if (sample.crc32 != first.take<uint32_t>())
                    refuse("has other numbers here, in the " + std::to_string(sample.bytes) + " bytes from byte " +
                           std::to_string(sample.first) + " of the data on, than");
        });
    }

    // By the first one. Room for all shares, so that a full disk shows early.
    void make_outputs() {
        RunFiles files;
        for (const std::string& path : options_.inputs()) files.add_input(path);
        files.add_output(names_.output);
        output_ = std::make_unique<OutputFile>(names_.output, interrupts_, output_form());
        lse_ = open_beside(files, options_.lse, interrupts_, lse_form());
        json_ = open_beside(files, options_.json, interrupts_);
        trace_ = open_beside(files, options_.trace, interrupts_);
        if (files.has_standard_output()) lines_ = stderr;
        if (!output_->random_access()) refuse_one_way(names_.output, "write it");
        if (lse_ && !lse_->random_access()) refuse_one_way(options_.lse, "write it");
        output_->reserve(problem().stored_output_bytes());
        if (lse_) lse_->reserve(static_cast<uint64_t>(problem().output_rows()) * sizeof(float));
    }

    OutputForm output_form() const { return form_of_output(names_.output, problem(), input_->header().heads_axis); }
    OutputForm lse_form() const { return form_of_rows(options_.lse, problem(), input_->header().heads_axis); }

    // By the others.
    void join_outputs() {
        if (options_.gather)
            tell_outputs();
        else
            share_outputs();
        began_ = timeline_.now(); // the same moment for all of them, about
    }

    // The first alone sees the files.
    void tell_outputs() {
        if (ranks_.is_first()) return;
        const auto told = [this](const std::string& name, FileNumber number) {
            return std::make_unique<OutputFile>(name, [this, number](uint64_t offset, const void* data, size_t size) {
                gathering_.put(number, offset, data, size);
            });
        };
        output_ = told(names_.output, kOutput);
        if (!options_.lse.empty()) lse_ = told(options_.lse, kLse);
    }

    void share_outputs() {
        std::string told;
        agree(ranks_, [&] {
            if (!ranks_.is_first()) return;
            Parcel parcel;
            for (const OutputFile* file : {output_.get(), lse_.get()}) {
                const OutputFile::Temporary made = file == nullptr ? OutputFile::Temporary() : file->temporary();
                parcel.put(made.path).put(made.inode);
            }
            told = parcel.bytes();
        });
        OpenedParcel parcel(ranks_.exchange(told).front());
        agree(ranks_, [&] {
            if (ranks_.is_first()) return;
            const auto join = [&](const std::string& name, const OutputForm& form) {
                const std::string path = parcel.take_text();
                const OutputFile::Temporary made{path, parcel.take<uint64_t>()};
                return path.empty() ? nullptr : std::make_unique<OutputFile>(name, made, form);
            };
            output_ = join(names_.output, output_form());
            lse_ = join(options_.lse, lse_form());
        });
    }

    void tell_sizes() {
        if (!ranks_.is_first()) return;
        const auto [size_names, sizes] = sizes_of(problem());
        std::fprintf(lines_, "%s: %s\n", size_names.c_str(), sizes.c_str());
        remark_unusual(input_->path(), problem());
    }

    // Cut where all can.
    Gradients agreed_gradients() {
        const bool all_have_heads = problem().batches * problem().kv_heads >= ranks_.count();
        if (problem().operation != &kBackward || all_have_heads) return Gradients::whole;
        bool can_cut = false;
        agree(ranks_, [&] {
            EngineRequest request;
            request.input = input_->path();
            request.problem = problem();
            request.options = options_.engine;
            can_cut = choice_->gives_parts(request);
        });
        const std::vector<std::string> all = ranks_.exchange(can_cut ? "cut" : "whole");
        return std::count(all.begin(), all.end(), "cut") == ranks_.count() ? Gradients::cut : Gradients::whole;
    }

    void compute() {
        const Gradients gradients = agreed_gradients();
        if (!options_.gather) return compute_share(gradients);
        const std::optional<RankFailure> failed = attempt([&] {
            gathering_.during([&] { compute_share(gradients); },
                              [this](int file, uint64_t offset, const std::string& rows) {
                                  (file == kOutput ? output_ : lse_)->write_at(offset, rows.data(), rows.size());
                              });
        });
        if (failed) failure_ = failed; // of the two why, not that nobody carries
    }

    void compute_share(Gradients gradients) {
        failure_ = attempt([&] {
            const std::vector<CasePart> parts =
                divide_into_parts(problem(), ranks_.count(), gradients)[static_cast<size_t>(ranks_.rank())];
            for (const CasePart& part : parts) flops_ += part.problem.flops();
            const bool sums = !options_.json.empty();
            report_ = run_parts(*input_, parts, *output_, options_.engine, staging_limits(processors_),
                                [this](const EngineRequest& request) { return (*choice_)(request); },
                                is_timed() ? &timeline_ : nullptr, sums ? &checksum_ : nullptr,
                                {lse_.get(), sums && lse_ ? &lse_checksum_ : nullptr});
            if (report_.failure) std::rethrow_exception(report_.failure);
        });
        computed_ = timeline_.now();
    }

    // What is refused of a batch that several have seen parts of is refused by all of them.
    void agree_on_data() {
        Parcel mine;
        for (const SeenInPart& seen : report_.seen) mine.put(seen);
        std::map<int64_t, BatchExtremes> batches;
        for (const std::string& rank : ranks_.exchange(mine.bytes()))
            for (OpenedParcel parcel(rank); !parcel.empty();) {
                const auto seen = parcel.take<SeenInPart>();
                batches[seen.batch].merge(seen.extremes);
            }
        const auto judged = attempt([&] {
            const DomainCheck check(input_->path(), problem(), options_.engine.contract->domain);
            for (const auto& [batch, extremes] : batches) check.judge(batch, extremes);
        });
        agree(ranks_, {failure_, judged});
    }

    void finish_outputs() {
        output_->finish(options_.sync);
        if (lse_) lse_->finish(options_.sync);
    }

    void gather_reports() {
        RankReport mine;
        mine.node = ranks_.node();
        mine.engine = report_.engine;
        mine.began = began_;
        mine.flops = flops_;
        mine.readers = report_.readers;
        mine.writers = report_.writers;
        mine.staging_bytes = report_.staging_bytes;
        mine.figures = {summarise(timeline_.spans()), computed_, host_peak_bytes()};
        for (const std::string& rank : ranks_.exchange(packed(mine))) all_.push_back(unpacked(rank));
        const std::vector<std::string> checksums = ranks_.exchange(checksum_.packed());
        const std::vector<std::string> lse_checksums = ranks_.exchange(lse_checksum_.packed());
        const TraceOfRank of_rank{ranks_.rank(), mine.node, all_.front().began - mine.began};
        const std::vector<std::string> traces =
            ranks_.exchange(options_.trace.empty() ? "" : trace_events(timeline_, of_rank));
        agree(ranks_, [&] {
            if (!ranks_.is_first()) return;
            seconds_ = timeline_.now();
            for (size_t rank = 1; rank < all_.size(); ++rank) {
                checksum_.add_packed(checksums[rank]);
                lse_checksum_.add_packed(lse_checksums[rank]);
            }
            write_reports(traces);
        });
    }

    // For another reason than the first, who has said his.
    void tell_who_took_the_cpu() {
        const std::vector<std::string> reasons = ranks_.exchange(choice_->why_cpu());
        if (!ranks_.is_first()) return;
        std::set<std::string> told = {"", reasons.front()};
        for (size_t rank = 1; rank < reasons.size(); ++rank)
            if (told.insert(reasons[rank]).second)
                std::fprintf(stderr, "hw4: rank %zu is using the CPU: %s\n", rank, reasons[rank].c_str());
    }

    static std::string packed(const RankReport& report) {
        Parcel parcel;
        parcel.put(report.node).put(report.engine.device).put(report.engine.device_name).put(report.engine.kernel);
        parcel.put(report.engine.copies).put(report.engine.streams).put(report.engine.threads);
        parcel.put(report.engine.chunk_batches).put(report.engine.queries_at_once).put(report.engine.device_bytes);
        parcel.put(report.began).put(report.flops).put(report.readers).put(report.writers).put(report.staging_bytes);
        return parcel.put(report.figures).bytes();
    }

    RankReport unpacked(const std::string& bytes) const {
        OpenedParcel parcel(bytes);
        RankReport report;
        for (std::string* text : {&report.node, &report.engine.device, &report.engine.device_name,
                                  &report.engine.kernel, &report.engine.copies})
            *text = parcel.take_text();
        for (int* number : {&report.engine.streams, &report.engine.threads}) *number = parcel.take<int>();
        for (int64_t* number : {&report.engine.chunk_batches, &report.engine.queries_at_once})
            *number = parcel.take<int64_t>();
        report.engine.contract = options_.engine.contract;
        report.engine.device_bytes = parcel.take<size_t>();
        report.began = parcel.take<double>();
        report.flops = parcel.take<double>();
        for (int* number : {&report.readers, &report.writers}) *number = parcel.take<int>();
        report.staging_bytes = parcel.take<size_t>();
        report.figures = parcel.take<RunFigures>();
        return report;
    }

    RunReport whole_report() const {
        RunReport report = together(problem(), all_);
        report.lse = options_.lse;
        if (json_) report.output_crc32 = checksum_.text();
        if (json_ && lse_) report.lse_crc32 = lse_checksum_.text();
        return report;
    }

    RunFigures whole_figures() const {
        RunFigures figures = together(all_, ranks_.in_one_process());
        figures.total_seconds = seconds_;
        return figures;
    }

    // All files are complete then; only their names are left, as of a run of one.
    void write_reports(const std::vector<std::string>& traces) {
        if (json_) finish_report(*json_, json_text(names_.input, whole_report(), whole_figures(), all_), options_.sync);
        if (trace_) finish_report(*trace_, trace_text(traces), options_.sync);
    }

    void publish() {
        if (lse_) lse_->publish(options_.sync);
        output_->publish(options_.sync);
        if (json_) json_->publish(options_.sync);
        if (trace_) trace_->publish(options_.sync);
    }

    void tell_times() {
        if (!ranks_.is_first()) return;
        std::fprintf(lines_, "Time: %.3f seconds\n", seconds_);
        if (options_.time) std::fputs(time_table(whole_report(), whole_figures(), all_).c_str(), lines_);
    }

    enum FileNumber : int { kOutput, kLse }; // of those that rows are sent for

    Timeline timeline_;
    Options options_;
    const CaseNames& names_;
    Ranks& ranks_;
    InterruptGuard& interrupts_;
    Gathering gathering_;  // where it is asked for
    const int processors_; // for this rank
    std::optional<EngineChoice> choice_;
    std::optional<CaseReader> input_;
    std::unique_ptr<OutputFile> output_, lse_; // of the others: the first one's, opened or told
    std::unique_ptr<OutputFile> json_, trace_; // of the first
    FILE* lines_ = stdout;
    OutputChecksum checksum_, lse_checksum_;
    double began_ = 0;
    double computed_ = 0; // when its share was
    double flops_ = 0;
    double seconds_ = 0;
    PartsReport report_;
    std::optional<RankFailure> failure_;
    std::vector<RankReport> all_; // by rank
};

// The numbers of the cards asked for. Throws Error (no_gpu).
std::vector<int> cards_of(const Options& options) {
    const int present = gpu::card_count();
    if (present == 0) throw Error(ExitCode::no_gpu, "no usable GPU: " + gpu::unusable().reason);
    std::vector<int> cards = *options.gpus;
    if (cards.empty()) {
        cards.resize(static_cast<size_t>(present));
        std::iota(cards.begin(), cards.end(), 0);
    }
    const int most = *std::max_element(cards.begin(), cards.end());
    if (most >= present)
        throw Error(ExitCode::no_gpu, "--gpus asks for GPU " + std::to_string(most) + ", there " +
                                          (present == 1 ? "is 1" : "are " + std::to_string(present)) +
                                          " (counted from 0)");
    return cards;
}

} // namespace

void run_on_ranks(const Options& options, Ranks& ranks, InterruptGuard& interrupts) {
    RankedRun(options, ranks, interrupts).run();
}

void run_on_cards(const Options& options) {
    gpu::ask_for_few_connections();
    std::optional<InterruptGuard> interrupts(std::in_place, "hw4"); // the driver starts threads
    const std::vector<int> cards = cards_of(options);
    const auto on_card = [&](int index) {
        Options of_card = options;
        of_card.engine.card = cards[static_cast<size_t>(index)];
        return of_card;
    };
    if (cards.size() == 1) {
        interrupts.reset(); // in favour of its own
        return run_one(on_card(0));
    }
    on_thread_ranks(static_cast<int>(cards.size()),
                    [&](Ranks& ranks) { run_on_ranks(on_card(ranks.rank()), ranks, *interrupts); });
}

} // namespace hw4
