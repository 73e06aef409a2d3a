// Open the case -> choose the engine -> run -> rename the output: one case, on one rank or several.
//
// Every step ends with agree(), after success or failure, so that no rank waits for one that has left. The long step,
// the computation, runs to its end on all ranks: only then is it known which bad value comes first.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "src/base/host_memory.h"
#include "src/base/parallel.h"
#include "src/commands/engine_choice.h"
#include "src/commands/run.h"
#include "src/gpu/engine.h"
#include "src/io/byte_source.h"
#include "src/problem/words.h"
#include "src/ranks/agree.h"
#include "src/ranks/gathering.h"
#include "src/ranks/parcel.h"
#include "src/run/case_files.h"
#include "src/run/pipeline.h"
#include "src/run/run_report.h"
#include "src/run/shares.h"

namespace hw4 {
namespace {

// For a file that cannot be read or written in any order. Throws Error (usage).
[[noreturn]] void refuse_one_way(const std::string& name, const char* what) {
    throw Error(ExitCode::usage, name + ": several ranks " + what + " at once, need a plain file: no pipe, no gzip");
}

// Calls use(field) for every field that a rank sends to the others about itself.
template <class Report, class Use>
void each_field(Report& report, const Use& use) {
    auto& engine = report.run.engine;
    use(report.node), use(engine.device), use(engine.device_name), use(engine.kernel), use(engine.copies);
    use(engine.streams), use(engine.threads), use(engine.chunk_batches), use(engine.queries_at_once);
    use(engine.device_bytes), use(report.began), use(report.flops), use(report.run.readers), use(report.run.writers);
    use(report.run.staging_bytes), use(report.figures);
}

class OneCase {
public:
    OneCase(const Options& options, Ranks& ranks, InterruptGuard& interrupts)
        : options_(options), names_(options.cases.front()), ranks_(ranks), interrupts_(interrupts), gathering_(ranks),
          processors_(share_of_processors(ranks, available_processors(), allowed_processors())) {
        if (options_.engine.threads == 0) options_.engine.threads = processors_;
    }

    void run() {
        agree(ranks_, [this] { open_input(); });
        if (several()) refuse_other_inputs();
        agree(ranks_, [this] {
            if (ranks_.is_first()) make_outputs();
        });
        if (several()) join_outputs();
        mine_.began = timeline_.now(); // about the same moment on all ranks
        print_sizes();
        compute();
        agree_on_data();
        agree(ranks_, [this] { files_->finish(options_.sync); });
        gather_reports();
        report_cpu_ranks();
        agree(ranks_, [this] {
            if (ranks_.is_first()) publish();
        });
        print_times();
    }

private:
    bool several() const { return ranks_.count() > 1; }
    CaseReader& input() { return files_->input(); }
    const Problem& problem() const { return files_->problem(); }

    void open_input() {
        choice_.emplace(options_, ranks_.is_first());
        if (several() && !options_.arrays.gradients().empty())
            throw Error(ExitCode::usage, "--dq, --dk and --dv: several ranks write one OUTPUT");
        if (several() && !options_.arrays.given()) refuse_stream(names_.input, "several ranks read it at once");
        if (ranks_.is_first()) CaseFiles::add_names(run_files_, names_, options_);
        files_.emplace(names_, options_, *options_.engine.contract);
        if (several() && !input().random_access()) refuse_one_way(input().path(), "read it");
    }

    // Without a common file system, some ranks may see an older file, or another.
    void refuse_other_inputs() {
        std::vector<CaseReader::Sample> samples;
        agree(ranks_, [&] { samples = input().samples(); });
        const std::string sizes = sizes_of(problem()).second;
        const uint32_t lengths = input().lengths_crc32();
        Parcel mine;
        mine.put(sizes).put(lengths);
        for (const CaseReader::Sample& sample : samples) mine.put(sample.crc32);
        OpenedParcel first(ranks_.exchange(mine.bytes()).front());
        agree(ranks_, [&] {
            const auto refuse = [&](const std::string& what) {
                throw Error(ExitCode::bad_data,
                            input().path() + ": " + what + " for the first rank, need the same file");
            };
            const std::string of_first = first.take_text();
            if (sizes != of_first) refuse("is " + sizes + " here and " + of_first);
            if (lengths != first.take<uint32_t>()) refuse("has other lengths here than");
            for (const CaseReader::Sample& sample : samples)
                if (sample.crc32 != first.take<uint32_t>())
                    refuse("has other numbers here, in the " + std::to_string(sample.bytes) + " bytes from byte " +
                           std::to_string(sample.first) + " of the data on, than");
        });
    }

    // The first rank creates the outputs and reserves space for all shares, so that a full disk shows early.
    void make_outputs() {
        files_->open_outputs(interrupts_);
        reports_ = RunReports(options_, run_files_, interrupts_);
        if (!several()) return;
        if (!files_->output().random_access()) refuse_one_way(names_.output, "write it");
        files_->output().reserve(problem().file_bytes(problem().operation->outputs));
        OutputFile* const lse = files_->lse();
        if (lse == nullptr) return;
        if (!lse->random_access()) refuse_one_way(options_.lse, "write it");
        lse->reserve(static_cast<uint64_t>(problem().output_rows()) * sizeof(float));
    }

    // The other ranks open the same outputs.
    void join_outputs() {
        if (options_.gather)
            send_outputs();
        else
            share_outputs();
    }

    // Only the first rank sees the files: the others send it their rows.
    void send_outputs() {
        if (ranks_.is_first()) return;
        const auto told = [this](const std::string& name, FileNumber number) {
            return std::make_unique<OutputFile>(name, [this, number](uint64_t offset, const void* data, size_t size) {
                gathering_.put(number, offset, data, size);
            });
        };
        files_->join_outputs(told(names_.output, kOutput), options_.lse.empty() ? nullptr : told(options_.lse, kLse));
    }

    void share_outputs() {
        std::string told;
        agree(ranks_, [&] {
            if (!ranks_.is_first()) return;
            Parcel parcel;
            for (const OutputFile* file : {&files_->output(), files_->lse()}) {
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
            auto output = join(names_.output, files_->output_form());
            files_->join_outputs(std::move(output), join(options_.lse, files_->lse_form()));
        });
    }

    void print_sizes() {
        if (!ranks_.is_first()) return;
        std::fprintf(run_files_.lines(), "%s\n", files_->sizes_line().c_str());
        remark_unusual(input().path(), problem());
    }

    // Ranks share the gradients of a head where all their engines can compute some without the others.
    Gradients agreed_gradients() {
        const bool all_have_heads = problem().batches * problem().kv_heads >= ranks_.count();
        if (problem().operation != &kBackward || all_have_heads) return Gradients::whole;
        bool can_cut = false;
        agree(ranks_, [&] {
            EngineRequest request;
            request.input = input().path();
            request.problem = problem();
            request.options = options_.engine;
            can_cut = choice_->gives_parts(request);
        });
        const std::vector<std::string> all = ranks_.exchange(can_cut ? "cut" : "whole");
        return std::count(all.begin(), all.end(), "cut") == ranks_.count() ? Gradients::cut : Gradients::whole;
    }

    void compute() {
        const Gradients gradients = agreed_gradients();
        if (!options_.gather || !several()) return compute_share(gradients);
        const std::optional<RankFailure> failed = attempt([&] {
            gathering_.during([&] { compute_share(gradients); },
                              [this](int file, uint64_t offset, const std::string& rows) {
                                  OutputFile& to = file == kOutput ? files_->output() : *files_->lse();
                                  to.write_at(offset, rows.data(), rows.size());
                              });
        });
        if (failed) failure_ = failed; // the original error, not the missing carrier
    }

    void compute_share(Gradients gradients) {
        failure_ = attempt([&] {
            CaseRun run{input(), files_->output(), options_.engine, staging_limits(processors_),
                        [this](const EngineRequest& request) { return (*choice_)(request); }};
            run.timeline = options_.timed() ? &timeline_ : nullptr;
            run.lse = files_->lse();
            run.checksums = options_.json.empty() ? nullptr : &checksums_;
            std::vector<CasePart> parts;
            mine_.flops = problem().flops();
            if (several()) {
                const auto divided = divide_into_parts(problem(), ranks_.count(), gradients, input().lengths());
                parts = divided[static_cast<size_t>(ranks_.rank())];
                mine_.flops = 0;
                for (const CasePart& part : parts) mine_.flops += part.problem.flops();
                run.parts = &parts;
            }
            mine_.run = run_case(run);
            if (mine_.run.failure) std::rethrow_exception(mine_.run.failure);
        });
        computed_ = timeline_.now();
    }

    // All ranks together check a batch of which several ranks have parts.
    void agree_on_data() {
        Parcel mine;
        for (const SeenInPart& seen : mine_.run.seen) mine.put(seen);
        std::map<int64_t, BatchExtremes> batches;
        for (const std::string& rank : ranks_.exchange(mine.bytes()))
            for (OpenedParcel parcel(rank); !parcel.empty();) {
                const auto seen = parcel.take<SeenInPart>();
                batches[seen.batch].merge(seen.extremes);
            }
        const auto judged = attempt([&] {
            const DomainCheck check(input().path(), problem(), options_.engine.contract->domain);
            for (const auto& [batch, extremes] : batches) check.judge(batch, extremes);
        });
        agree(ranks_, {failure_, judged});
    }

    void gather_reports() {
        mine_.node = ranks_.node();
        mine_.figures = {summarise(timeline_.spans()), computed_, host_peak_bytes()};
        for (const std::string& rank : ranks_.exchange(packed(mine_))) all_.push_back(unpacked(rank));
        const std::vector<std::string> checksums = ranks_.exchange(checksums_.output.packed());
        const std::vector<std::string> lse_checksums = ranks_.exchange(checksums_.lse.packed());
        const std::string owner = several() ? "rank " + std::to_string(ranks_.rank()) + " on " + mine_.node + ", " : "";
        const double later = all_.front().began - mine_.began;
        const std::vector<std::string> traces =
            ranks_.exchange(options_.trace.empty() ? "" : trace_events(timeline_, {ranks_.rank(), owner, later}));
        agree(ranks_, [&] {
            if (!ranks_.is_first()) return;
            seconds_ = timeline_.now();
            for (size_t rank = 1; rank < all_.size(); ++rank) {
                checksums_.output.add_packed(checksums[rank]);
                checksums_.lse.add_packed(lse_checksums[rank]);
            }
            // All files are complete then; only their names are missing.
            reports_.finish(json_text(names_.input, whole_report(), whole_figures(), listed_ranks()),
                            trace_text(traces));
        });
    }

    // Names the ranks that use the CPU for another reason than the first rank, which has printed its own.
    void report_cpu_ranks() {
        const std::vector<std::string> reasons = ranks_.exchange(choice_->why_cpu());
        if (!ranks_.is_first()) return;
        std::set<std::string> told = {"", reasons.front()};
        for (size_t rank = 1; rank < reasons.size(); ++rank)
            if (told.insert(reasons[rank]).second)
                std::fprintf(stderr, "hw4: rank %zu is using the CPU: %s\n", rank, reasons[rank].c_str());
    }

    static std::string packed(const RankReport& report) {
        Parcel parcel;
        each_field(report, [&](const auto& field) { parcel.put(field); });
        return parcel.bytes();
    }

    RankReport unpacked(const std::string& bytes) const {
        OpenedParcel parcel(bytes);
        RankReport report;
        each_field(report, [&](auto& field) { parcel.take(field); });
        report.run.engine.contract = options_.engine.contract;
        return report;
    }

    std::vector<RankReport> listed_ranks() const { return several() ? all_ : std::vector<RankReport>(); }

    RunReport whole_report() const {
        RunReport report = together(problem(), all_);
        report.lse = options_.lse;
        if (!options_.json.empty()) report.output_crc32 = checksums_.output.text();
        if (!options_.json.empty() && !options_.lse.empty()) report.lse_crc32 = checksums_.lse.text();
        return report;
    }

    RunFigures whole_figures() const {
        RunFigures figures = together(all_, ranks_.in_one_process());
        figures.total_seconds = seconds_;
        return figures;
    }

    // Printed last: an error of standard output must not discard the result.
    void publish() {
        files_->publish(options_.sync);
        reports_.publish();
    }

    void print_times() {
        if (!ranks_.is_first()) return;
        std::fprintf(run_files_.lines(), "Time: %.3f seconds\n", seconds_);
        if (options_.time)
            std::fputs(time_table(whole_report(), whole_figures(), listed_ranks()).c_str(), run_files_.lines());
    }

    enum FileNumber : int { kOutput, kLse }; // outputs with rows to send

    Timeline timeline_;
    Options options_;
    const CaseNames& names_;
    Ranks& ranks_;
    InterruptGuard& interrupts_;
    Gathering gathering_;  // with --gather
    const int processors_; // for this rank
    std::optional<EngineChoice> choice_;
    RunFiles run_files_; // on the first rank
    std::optional<CaseFiles> files_;
    RunReports reports_; // on the first rank
    OutputChecksums checksums_;
    double computed_ = 0; // when its share was computed
    double seconds_ = 0;
    std::optional<RankFailure> failure_;
    RankReport mine_;
    std::vector<RankReport> all_; // by rank
};

// How many GPUs to use. Throws Error (no_gpu).
int cards_of(const Options& options) {
    const int present = gpu::card_count();
    if (present == 0) throw Error(ExitCode::no_gpu, "no usable GPU: " + gpu::unusable().reason);
    if (*options.gpus > present)
        throw Error(ExitCode::no_gpu, "--gpus asks for " + std::to_string(*options.gpus) + " GPUs, there " +
                                          (present == 1 ? "is 1" : "are " + std::to_string(present)));
    return *options.gpus == 0 ? present : *options.gpus;
}

} // namespace

RunReports::RunReports(const Options& options, RunFiles& files, InterruptGuard& interrupts) : sync_(options.sync) {
    const auto open = [&](const std::string& path) -> std::unique_ptr<OutputFile> {
        if (path.empty()) return nullptr;
        files.add_output(path);
        return std::make_unique<OutputFile>(path, interrupts);
    };
    json_ = open(options.json);
    trace_ = open(options.trace);
}

void RunReports::finish(const std::string& json, const std::string& trace) {
    const auto write = [this](OutputFile* file, const std::string& text) {
        if (file == nullptr) return;
        file->write(text.data(), text.size());
        file->finish(sync_);
    };
    write(json_.get(), json);
    write(trace_.get(), trace);
}

void RunReports::publish() {
    if (json_) json_->publish(sync_);
    if (trace_) trace_->publish(sync_);
}

void remark_unusual(const std::string& input, const Problem& problem) {
    if (!is_plain(problem)) return;
    const int64_t tokens = problem.queries;
    const bool is_power_of_two = (tokens & (tokens - 1)) == 0;
    // The course states B*N*d < 56 M, but its own t12 and t22 have more: t12, the largest, has 79 M.
    constexpr size_t kMostNumbers = size_t{9600} * 128 * 64;
    const bool usual = problem.batches >= 2 && problem.batches <= 14000 && is_power_of_two && tokens >= 128 &&
                       tokens <= 32768 && (problem.dim == 32 || problem.dim == 64) &&
                       problem.output_bytes() / sizeof(float) <= kMostNumbers;
    if (!usual)
        std::fprintf(stderr,
                     "hw4: %s: note: outside the course's range (B 2..14000, N a power of two 128..32768, d 32 or 64, "
                     "B*N*d up to %zu)\n",
                     one_line(input).c_str(), kMostNumbers);
}

void run_one(const Options& options, Ranks& ranks, InterruptGuard& interrupts) {
    OneCase(options, ranks, interrupts).run();
}

void run_on_cards(const Options& options, Ranks& alone, InterruptGuard& interrupts) {
    const int cards = cards_of(options);
    if (cards == 1) return run_one(options, alone, interrupts);
    on_thread_ranks(cards, [&](Ranks& ranks) {
        Options of_card = options;
        of_card.engine.card = ranks.rank();
        run_one(of_card, ranks, interrupts);
    });
}

} // namespace hw4
