#include "src/step/training.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <utility>

#include "src/base/error.h"
#include "src/base/interrupt.h"
#include "src/base/numbers.h"
#include "src/base/standard_streams.h"
#include "src/io/run_files.h"
#include "src/ranks/agree.h"
#include "src/ranks/launched.h"
#include "src/ranks/parcel.h"
#include "src/step/checkpoint.h"
#include "src/step/data_parallel.h"
#include "src/step/tokens.h"
#include "src/step/trainer.h"
#include "src/step/weights.h"

namespace hw4::step {
namespace {

// An output that is replaced at each save. The first temporary file is there before any work, so that a bad name shows
// at once.
class SavedFile {
public:
    SavedFile(std::string name, InterruptGuard& interrupts)
        : name_(std::move(name)), interrupts_(interrupts), file_(std::make_unique<OutputFile>(name_, interrupts)) {}

    OutputFile& file() {
        if (!file_) file_ = std::make_unique<OutputFile>(name_, interrupts_);
        return *file_;
    }
    void save() {
        file().commit(true);
        file_.reset();
    }

private:
    const std::string name_;
    InterruptGuard& interrupts_;
    std::unique_ptr<OutputFile> file_; // null until the next save after one
};

class Log {
public:
    Log(const std::string& name, InterruptGuard& interrupts) {
        if (!name.empty()) output_.emplace(name, interrupts);
        in_order_ = output_ && !output_->file().random_access();
    }

    // Keeps the lines of steps 1 to `step` of an earlier run, up to the first other line. Returns the first step whose
    // line is missing; step + 1: none is. Throws Error (no_input, io_error) where the old file cannot be read: the next
    // save would lose its lines.
    int64_t keep_lines(const std::string& name, int64_t step) {
        if (!output_ || in_order_) return step + 1;
        std::ifstream old(name);
        if (!old.is_open() && status_of(name, ExitCode::no_input))
            throw Error(ExitCode::no_input, name + ": " + with_errno("cannot open"));
        int64_t kept = 0;
        for (std::string line; kept < step && std::getline(old, line); ++kept) {
            if (line.rfind(start_of(kept + 1), 0) != 0) break;
            text_ += line + '\n';
        }
        if (old.bad()) throw Error(ExitCode::io_error, name + ": " + with_errno("cannot read"));
        return kept + 1;
    }

    void add(int64_t step, const StepResult& result) {
        if (!output_) return;
        const std::string line =
            start_of(step) + "\"loss\": " + text_of(result.loss) + ", \"norm\": " + text_of(result.norm) + "}\n";
        if (in_order_)
            output_->file().write(line.data(), line.size());
        else
            text_ += line;
    }

    void save() {
        if (!output_ || in_order_) return;
        output_->file().write(text_.data(), text_.size());
        output_->save();
    }

    void finish() {
        if (in_order_) output_->file().commit(false);
    }

private:
    static std::string start_of(int64_t step) { return "{\"step\": " + std::to_string(step) + ", "; }

    std::optional<SavedFile> output_;
    bool in_order_ = false;
    std::string text_;
};

RunFiles files_of(const TrainingRequest& request) {
    if (is_standard_stream(request.checkpoint))
        usage_error("CHECKPOINT '-': a checkpoint is replaced as a whole, need a plain file");
    refuse_stream(request.checkpoint, "a checkpoint is replaced as a whole");
    RunFiles files;
    files.add_input(request.tokens);
    files.add_output(request.checkpoint);
    if (!request.log.empty()) files.add_output(request.log);
    return files;
}

Configuration new_settings(const TrainingRequest& request) {
    const Preset& preset = request.preset != nullptr ? *request.preset : presets().front();
    Configuration settings;
    if (request.contract != nullptr) settings.contract = request.contract;
    settings.model = preset.model;
    settings.context = preset.context;
    apply_given(request, settings);
    const std::string why_not = why_no_model(settings.model);
    if (!why_not.empty()) usage_error(why_not);
    return settings;
}

// The checkpoint's settings. Throws Error (bad_data) where an option says otherwise.
Configuration settings_of(const std::string& checkpoint, const TrainingState& state, const TrainingRequest& request) {
    Configuration asked = state.settings;
    if (request.contract != nullptr) asked.contract = request.contract;
    if (request.preset != nullptr) asked.model = request.preset->model;
    apply_given(request, asked);
    const SettingTexts wanted = texts_of(asked);
    const SettingTexts have = texts_of(state.settings);
    for (size_t i = 0; i < have.size(); ++i)
        if (have[i] != wanted[i])
            throw Error(ExitCode::bad_data, checkpoint + ": has " + have[i].first + " " + have[i].second +
                                                ", and the options ask for " + wanted[i].second);
    return state.settings;
}

void require_same_tokens(const std::string& checkpoint, const TrainingState& state, const TokenFile& text) {
    if (state.tokens == text.count() && state.tokens_crc32 == text.crc32()) return;
    throw Error(ExitCode::bad_data, checkpoint + ": is of a text of " + std::to_string(state.tokens) +
                                        " tokens with CRC-32 " + state.tokens_crc32 + ", and TOKENS has " +
                                        std::to_string(text.count()) + " with " + text.crc32());
}

// Every step ends with agree(), whether it was done or has failed, so that no rank waits for one that has gone.
class Training {
public:
    Training(const TrainingRequest& request, const std::string& program, int threads, Ranks& ranks,
             const MakeMachine& make_machine)
        : request_(request), ranks_(ranks) {
        agree(ranks_, [&] {
            lines_ = files_of(request).lines();
            interrupts_.emplace(ranks.is_first() ? program.c_str() : nullptr);
            read_inputs();
        });
        if (several()) refuse_other_inputs();
        agree(ranks_, [&] {
            if (ranks_.is_first()) {
                output_.emplace(request.checkpoint, *interrupts_);
                log_.emplace(request.log, *interrupts_);
            }
            cut_batch();
            machine_ = make_machine(*state_.settings.contract);
            trainer_.emplace(*machine_, state_.settings, state_.settings.micro_batch,
                             shard_of(request.shard, state_.settings, ranks_));
            together_.emplace(*trainer_, state_.settings, ranks_, SyncWay(), request.shard);
            if (old_)
                take_old();
            else
                draw_all_weights(*machine_, trainer_->parameters(), static_cast<uint64_t>(state_.settings.seed),
                                 threads, trainer_->weights());
        });
    }

    void run() {
        const Configuration& settings = state_.settings;
        const int64_t last = request_.until >= 0 ? std::min(request_.until, settings.steps) : settings.steps;
        say_sizes();
        if (old_ && state_.step >= last) say(request_.checkpoint + ": is at step " + text_of(state_.step) + " already");
        while (state_.step < last) {
            const StepResult result = together_->step(state_.step + 1, [&](int64_t first, int64_t count) {
                return text_->sequences(settings, state_.step, first, count);
            });
            ++state_.step;
            agree_if_first([&] {
                log_->add(state_.step, result);
                say_loss(result.loss, last);
            });
            if (request_.save_every > 0 && state_.step % request_.save_every == 0 && state_.step < last) save();
        }
        save();
        agree_if_first([&] { log_->finish(); });
    }

private:
    bool several() const { return ranks_.count() > 1; }
    void agree_if_first(const std::function<void()>& work) {
        agree(ranks_, [&] {
            if (ranks_.is_first()) work();
        });
    }

    void read_inputs() {
        if (several()) refuse_pipe();
        if (request_.resume) old_.emplace(request_.checkpoint);
        state_.settings = old_ ? settings_of(request_.checkpoint, old_->state(), request_) : new_settings(request_);
        text_.emplace(request_.tokens, request_.token_bits, state_.settings);
        state_.tokens = text_->count();
        state_.tokens_crc32 = text_->crc32();
        if (old_) require_same_tokens(request_.checkpoint, old_->state(), *text_);
    }

    void refuse_pipe() const {
        refuse_stream(request_.tokens, "several ranks read it at once");
        if (!S_ISREG(open_input(request_.tokens).status.st_mode))
            usage_error(request_.tokens + ": several ranks read it at once, need a plain file");
    }

    // Where the file system is not shared, some ranks may see older files, or others.
    void refuse_other_inputs() {
        const std::string mine[] = {state_.tokens_crc32 + " of " + std::to_string(state_.tokens) + " tokens",
                                    old_ ? old_->crc32() + " at step " + std::to_string(old_->state().step) : ""};
        OpenedParcel first(ranks_.exchange(Parcel().put(mine[0]).put(mine[1]).bytes()).front());
        agree(ranks_, [&] {
            for (const std::string& of_file : mine) {
                const std::string of_first = first.take_text();
                if (of_file != of_first)
                    throw Error(ExitCode::bad_data, (&of_file == mine ? request_.tokens : request_.checkpoint) +
                                                        ": has CRC-32 " + of_file + " here and " + of_first +
                                                        " for the first rank, need the same file");
            }
        });
    }

    // Under bf16 the micro-batch decides bytes: it is the same on all ranks, and the checkpoint's.
    void cut_batch() {
        Configuration& settings = state_.settings;
        const bool is_old = settings.is_bf16() && old_;
        const int64_t most = is_old && request_.micro_batch == 0 ? settings.micro_batch : request_.micro_batch;
        const int64_t size = micro_batch_for(most, settings.batch, ranks_, settings.is_bf16());
        if (is_old && size != settings.micro_batch)
            throw Error(ExitCode::bad_data, request_.checkpoint + ": has micro_batch " + text_of(settings.micro_batch) +
                                                ", and these options and ranks have " + text_of(size) +
                                                ", which gives other bytes under bf16");
        settings.micro_batch = size;
    }

    // The parameters (0), m (1) or v (2), from the first number that this rank has.
    float* array(size_t index) { return index == 0 ? trainer_->weights() : index == 1 ? trainer_->m() : trainer_->v(); }
    Piece held(size_t index) const { return index == 0 ? Piece{0, trainer_->parameters().floats} : trainer_->shard(); }

    void take_old() {
        state_.step = old_->state().step;
        old_->read([&](size_t index, size_t first, const float* from, size_t count) {
            const Piece mine = in_shard(held(index), {first, count});
            if (mine.count > 0)
                machine_->put(array(index) + (mine.first - held(index).first), from + (mine.first - first), mine.count);
        });
        if (!log_) return;
        const int64_t missing = log_->keep_lines(request_.log, state_.step);
        if (missing <= state_.step)
            say(request_.log + ": has no lines of steps " + text_of(missing) + " to " + text_of(state_.step));
    }

    void save() {
        if (request_.shard && several() && !ranks_.is_first()) give_numbers();
        agree_if_first([&] {
            const auto saved = attempt([&] { save_files(); });
            if (request_.shard && several()) ranks_.exchange(""); // no more is asked for
            if (saved) throw Error(saved->code, saved->message);
        });
    }

    // The log first: beside a new checkpoint it is new.
    void save_files() {
        log_->save();
        write_checkpoint(output_->file(), state_, [&](size_t index, size_t first, float* to, size_t count) {
            if (held(index).count == trainer_->parameters().floats)
                machine_->get(to, array(index) + first, count);
            else
                ask_for_numbers(index, first, to, count);
        });
        output_->save();
    }

    // The first rank asks for a range, and every rank sends the part that it has. An empty request is the last one.
    void ask_for_numbers(size_t index, size_t first, float* to, size_t count) {
        const std::string wanted = Parcel().put(index).put(first).put(count).bytes();
        ranks_.exchange(wanted);
        size_t bytes = 0;
        for (const std::string& of_rank : ranks_.to_first(numbers_of_shard(wanted))) {
            std::copy(of_rank.begin(), of_rank.end(), reinterpret_cast<char*>(to) + bytes);
            bytes += of_rank.size();
        }
    }
    void give_numbers() {
        for (std::string wanted; !(wanted = ranks_.exchange("").front()).empty();)
            ranks_.to_first(numbers_of_shard(wanted));
    }
    std::string numbers_of_shard(const std::string& wanted) {
        OpenedParcel parcel(wanted);
        const auto index = parcel.take<size_t>();
        const auto first = parcel.take<size_t>();
        const Piece mine = in_shard(held(index), {first, parcel.take<size_t>()});
        std::vector<float> numbers(mine.count);
        if (mine.count > 0) machine_->get(numbers.data(), array(index) + (mine.first - held(index).first), mine.count);
        return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
    }

    void say_sizes() const {
        const Model& model = state_.settings.model;
        size_t count = 0;
        for (const Parameter& parameter : trainer_->parameters().list) count += parameter.count();
        say("(width, hidden, layers, heads, vocabulary): (" + std::to_string(model.width) + ", " +
            std::to_string(model.hidden) + ", " + std::to_string(model.layers) + ", " + std::to_string(model.heads) +
            ", " + std::to_string(model.vocabulary) + "), " + std::to_string(count) + " parameters");
    }

    // The first step, the last, and some in between.
    void say_loss(double loss, int64_t last) {
        constexpr int64_t kLines = 10;
        const bool first = std::exchange(first_, false);
        if (!first && state_.step != last && state_.step % std::max<int64_t>(1, last / kLines) != 0) return;
        char text[32];
        std::snprintf(text, sizeof text, "%.6f", loss);
        say("step " + std::to_string(state_.step) + " of " + std::to_string(state_.settings.steps) + ": loss " + text);
    }

    void say(const std::string& line) const {
        if (!ranks_.is_first()) return;
        std::fprintf(lines_, "%s\n", line.c_str());
        std::fflush(lines_);
    }

    const TrainingRequest& request_;
    Ranks& ranks_;
    FILE* lines_ = stdout;
    std::optional<InterruptGuard> interrupts_;
    std::optional<CheckpointReader> old_;
    TrainingState state_;
    std::optional<TokenFile> text_;
    std::optional<SavedFile> output_; // of the first rank, as the log
    std::optional<Log> log_;
    std::unique_ptr<Machine> machine_;
    std::optional<Trainer> trainer_;
    std::optional<DataParallel> together_;
    bool first_ = true;
};

} // namespace

void run_training(const TrainingRequest& request, const std::string& program, int threads, Ranks& ranks,
                  const MakeMachine& make_machine) {
    Training(request, program, threads, ranks, make_machine).run();
}

void train_by_reference(int argc, char** argv, const std::string& version) {
    const TrainingRequest request = parse_training(argc, argv, {});
    if (request.action == Action::help) std::fputs(training_help("seq", "").c_str(), stdout);
    if (request.action == Action::version) std::fputs(version.c_str(), stdout);
    if (request.action != Action::run) return;
    OneRank alone;
    run_training(request, "seq", 1, alone, make_reference);
}

} // namespace hw4::step
