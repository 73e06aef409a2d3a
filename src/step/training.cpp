#include "src/step/training.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <utility>

#include "src/base/error.h"
#include "src/base/interrupt.h"
#include "src/base/numbers.h"
#include "src/base/parallel.h"
#include "src/base/standard_streams.h"
#include "src/io/run_files.h"
#include "src/step/checkpoint.h"
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

    // The lines of steps 1 to `step` of an earlier run. What is no such line ends them.
    void keep_lines(const std::string& name, int64_t step) {
        if (!output_ || in_order_) return;
        std::ifstream old(name);
        int64_t kept = 0;
        for (std::string line; kept < step && std::getline(old, line); ++kept) {
            if (line.rfind(start_of(kept + 1), 0) != 0) break;
            text_ += line + '\n';
        }
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
    settings.model = preset.model;
    settings.context = preset.context;
    apply_given(request, settings);
    const std::string why_not = why_no_model(settings.model);
    if (!why_not.empty()) usage_error(why_not);
    return settings;
}

// Those of the checkpoint. Throws Error (bad_data) where an option says otherwise.
Configuration settings_of(const std::string& checkpoint, const TrainingState& state, const TrainingRequest& request) {
    Configuration asked = state.settings;
    apply_model(request, asked);
    apply_given(request, asked);
    const SettingTexts wanted = texts_of(asked);
    const SettingTexts have = texts_of(state.settings);
    for (size_t i = 0; i < have.size(); ++i)
        if (have[i] != wanted[i])
            throw Error(ExitCode::bad_data, checkpoint + ": is of " + have[i].first + " " + have[i].second +
                                                ", and the options ask for " + wanted[i].second);
    return state.settings;
}

void require_same_tokens(const std::string& checkpoint, const TrainingState& state, const TokenFile& text) {
    if (state.tokens == text.count() && state.tokens_crc32 == text.crc32()) return;
    throw Error(ExitCode::bad_data, checkpoint + ": is of a text of " + std::to_string(state.tokens) +
                                        " tokens with CRC-32 " + state.tokens_crc32 + ", and TOKENS has " +
                                        std::to_string(text.count()) + " with " + text.crc32());
}

class Training {
public:
    Training(const TrainingRequest& request, const std::string& program, int threads,
             const std::function<std::unique_ptr<Machine>()>& make_machine)
        : request_(request), lines_(files_of(request).lines()), interrupts_(program.c_str()) {
        if (request.resume) old_.emplace(request.checkpoint);
        state_.settings = old_ ? settings_of(request.checkpoint, old_->state(), request) : new_settings(request);
        text_.emplace(request.tokens, request.token_bits, state_.settings);
        state_.tokens = text_->count();
        state_.tokens_crc32 = text_->crc32();
        if (old_) require_same_tokens(request.checkpoint, old_->state(), *text_);
        output_.emplace(request.checkpoint, interrupts_);
        log_.emplace(request.log, interrupts_);
        machine_ = make_machine();
        trainer_.emplace(*machine_, state_.settings,
                         request.micro_batch > 0 ? request.micro_batch : whole_batch(state_.settings.batch));
        if (old_)
            take_old();
        else
            draw(threads);
    }

    void run() {
        const Configuration& settings = state_.settings;
        const int64_t last = request_.until >= 0 ? std::min(request_.until, settings.steps) : settings.steps;
        say_sizes();
        while (state_.step < last) {
            const StepResult result = trainer_->step(state_.step + 1, [&](int64_t first, int64_t count) {
                return text_->sequences(settings, state_.step, first, count);
            });
            ++state_.step;
            log_->add(state_.step, result);
            say_loss(result.loss, last);
            if (request_.save_every > 0 && state_.step % request_.save_every == 0 && state_.step < last) save();
        }
        save();
        log_->finish();
    }

private:
    static int64_t whole_batch(int64_t sequences) {
        int64_t size = 1;
        while (size < sequences) size *= 2;
        return size;
    }

    float* array(size_t index) { return index == 0 ? trainer_->weights() : index == 1 ? trainer_->m() : trainer_->v(); }

    void take_old() {
        state_.step = old_->state().step;
        old_->read([&](size_t index, size_t first, const float* from, size_t count) {
            machine_->put(array(index) + first, from, count);
        });
        log_->keep_lines(request_.log, state_.step);
    }

    void draw(int threads) {
        const std::vector<Parameter>& list = trainer_->parameters().list;
        std::vector<float> drawn;
        for (size_t place = 0; place < list.size(); ++place) {
            drawn.resize(list[place].count());
            in_pieces(
                drawn.size(), kPieceNumbers,
                [&](size_t first, size_t count) {
                    draw_weights(list[place], place, static_cast<uint64_t>(state_.settings.seed), first, count,
                                 drawn.data() + first);
                },
                threads);
            machine_->put(trainer_->weights() + list[place].first, drawn.data(), drawn.size());
        }
    }

    // The log first: beside a new checkpoint it is new.
    void save() {
        log_->save();
        write_checkpoint(output_->file(), state_, [&](size_t index, size_t first, float* to, size_t count) {
            machine_->get(to, array(index) + first, count);
        });
        output_->save();
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
        std::fprintf(lines_, "%s\n", line.c_str());
        std::fflush(lines_);
    }

    const TrainingRequest& request_;
    FILE* const lines_;
    InterruptGuard interrupts_;
    std::optional<CheckpointReader> old_;
    TrainingState state_;
    std::optional<TokenFile> text_;
    std::optional<SavedFile> output_;
    std::optional<Log> log_;
    std::unique_ptr<Machine> machine_;
    std::optional<Trainer> trainer_;
    bool first_ = true;
};

} // namespace

void run_training(const TrainingRequest& request, const std::string& program, int threads,
                  const std::function<std::unique_ptr<Machine>()>& make_machine) {
    Training(request, program, threads, make_machine).run();
}

} // namespace hw4::step
