#include <algorithm>
#include <type_traits>

#include "src/base/error.h"
#include "src/base/help_text.h"
#include "src/base/numbers.h"
#include "src/step/training.h"

namespace hw4::step {
namespace {

template <class Number>
Number number_of(const std::string& option, const std::string& value, Number least, Number most) {
    const auto number = number_in(std::string_view(value), least, most);
    if (!number)
        usage_error("--" + option + " '" + value + "': need a " +
                    (std::is_integral_v<Number> ? "whole number" : "number") + " from " + text_of(least) + " to " +
                    text_of(most));
    return *number;
}

int64_t count_of(const char* option, const char* value, int64_t least = 1) {
    return number_of(option, value, least, int64_t{1} << 40);
}

const Preset& preset_named(const std::string& name) {
    std::string names;
    for (const Preset& preset : presets()) {
        if (name == preset.name) return preset;
        names += (names.empty() ? "" : ", ") + std::string(preset.name);
    }
    usage_error("--model '" + name + "': need one of " + names);
}

const Contract& contract_named(const std::string& name) {
    const Contract* const contract = find_contract(name, kStepContracts);
    if (contract != nullptr) return *contract;
    usage_error("--contract '" + name + "': need " + contract_names(kStepContracts));
}

int64_t micro_batch_of(const char* value) {
    const int64_t size = count_of("micro-batch", value);
    if ((size & (size - 1)) != 0) usage_error("--micro-batch '" + std::string(value) + "': need a power of two");
    return size;
}

int token_bits_of(const std::string& value) {
    if (value != "16" && value != "32") usage_error("--token-bits '" + value + "': need 16 or 32");
    return value == "16" ? 16 : 32;
}

std::vector<CommandOption> options_of(TrainingRequest& request) {
    constexpr int kValue = required_argument;
    std::vector<CommandOption> list = {
        {"model", kValue, [&](const char* value) { request.preset = &preset_named(value); }},
        {"contract", kValue, [&](const char* value) { request.contract = &contract_named(value); }},
        {"token-bits", kValue, [&](const char* value) { request.token_bits = token_bits_of(value); }},
        {"micro-batch", kValue, [&](const char* value) { request.micro_batch = micro_batch_of(value); }},
        {"save-every", kValue, [&](const char* value) { request.save_every = count_of("save-every", value); }},
        {"until", kValue, [&](const char* value) { request.until = count_of("until", value, 0); }},
        {"log", kValue, [&](const char* value) { request.log = parse_name("log", value); }},
        flag("resume", request.resume)};
    Configuration any;
    each_setting(any, [&](const char* name, auto, auto, auto) {
        list.push_back({name, kValue, [&request, name](const char* value) { request.given[name] = value; }});
    });
    return list;
}

} // namespace

void apply_given(const TrainingRequest& request, Configuration& settings) {
    each_setting(settings, [&](std::string name, auto& value, auto least, auto most) {
        const auto given = request.given.find(name);
        if (given == request.given.end()) return;
        std::replace(name.begin(), name.end(), '_', '-'); // as --help has it
        value = number_of(name, given->second, least, most);
    });
}

TrainingRequest parse_training(int argc, char** argv, const std::vector<CommandOption>& more) {
    TrainingRequest request;
    std::vector<CommandOption> list = options_of(request);
    list.insert(list.end(), more.begin(), more.end());
    request.action = take_options(argc, argv, list);
    if (request.action != Action::run) return request;
    const std::vector<std::string> names(argv + optind, argv + argc);
    if (names.size() != 2)
        usage_error("need TOKENS and CHECKPOINT, got " + std::to_string(names.size()) +
                    (names.size() == 1 ? " name" : " names"));
    request.tokens = names[0];
    request.checkpoint = names[1];
    Configuration any;
    apply_given(request, any);
    return request;
}

std::string training_help(const std::string& program, const std::string& more) {
    std::string models = "\n  model     width  hidden  layers  heads  vocabulary  context\n";
    for (const Preset& preset : presets()) {
        const Model& model = preset.model;
        char line[96];
        std::snprintf(line, sizeof line, "  %-8s %6d %7d %7d %6d %11d %8d\n", preset.name,
                      static_cast<int>(model.width), static_cast<int>(model.hidden), static_cast<int>(model.layers),
                      static_cast<int>(model.heads), static_cast<int>(model.vocabulary),
                      static_cast<int>(preset.context));
        models += line;
    }
    const std::string train = program + " train ";
    return "usage: " + train + "[options] TOKENS CHECKPOINT\n\n" +
           laid_out(R"(Trains a transformer (pre-norm,
RMSNorm, RoPE, causal attention, SwiGLU, an untied head, no biases) with AdamW in float32. Every rounding is defined:
the same options and TOKENS give the same bytes of losses and CHECKPOINT on every machine, with any number of threads
and any micro-batch; under bf16, on every run.

TOKENS is the text, uint16 or uint32, little-endian: plain, or NumPy's .npy of shape (N,); - is standard input.
CHECKPOINT is a safetensors file: parameters, AdamW's m and v, the step, all settings. It is written under a temporary
name and renamed: a run that fails or is killed leaves the last complete one. Without --resume the first save replaces
an existing CHECKPOINT.

  )" + train + R"(--model tiny --steps 200 text.bin tiny.safetensors
  )" + train + R"(--resume text.bin tiny.safetensors

what to train:
)" + choice("--model", presets()) +
                    R"(  sizes and context, see below; default )" + presets().front().name + R"(
  --contract f32|bf16  default f32. bf16 rounds the inputs of products and attention to bf16, for a GPU's tensor cores;
    the rest stays float32. Its bytes depend on --micro-batch, which CHECKPOINT keeps, on the kind of GPU and its
    cuBLAS, but not on the run or the number of ranks. All CPUs give the same bytes
  --width N, --hidden N, --layers N, --heads N, --vocabulary N, --context N  other sizes than the model's
  --token-bits 16|32  size of a token in a plain file, default 16
  --seed N  decides the initial weights and where sequences begin, default 1
how to train:
  --batch N  sequences per step, default 4
  --steps N  steps of the whole training, default 100
  --learning-rate X  its highest value, default 0.001. It rises over the first tenth of the steps and falls as a cosine to a
    tenth of X
  --clip X  the largest norm of a gradient, default 1
  --weight-decay X, --beta1 X, --beta2 X, --eps X  for AdamW, default 0.1, 0.9, 0.95, 1e-8
  --micro-batch N  sequences computed at a time, a power of two; fewer take less memory. Default: the whole batch, or
    with several ranks a rank's share. Under bf16 give N to get the same bytes with another number of ranks
what to keep:
  --save-every K  write CHECKPOINT after every K steps too
  --until N  stop after step N; --resume continues from there. 0 writes the initial weights
  --resume  continue from CHECKPOINT, with the bytes of a run that was not stopped. Settings come from CHECKPOINT; an option
    that says otherwise is refused (65)
  --log FILE  a line of JSON for each step: loss and norm of the gradient. FILE is complete at each save, and
    --resume keeps its lines up to there; - and pipes get each line at once
)" + more + R"(  -h, --help, -V, --version
)") + models +
           laid_out(R"(
exit codes:
  0  done
  64  wrong usage
  65  bad data: a token beyond the vocabulary, too few tokens, a damaged CHECKPOINT, or one with other settings or tokens;
    a loss or a norm that is not finite, before that step is taken
  66  TOKENS, or CHECKPOINT with --resume, cannot be opened
  69  no usable GPU
  71  out of memory
  73  CHECKPOINT or FILE cannot be created
  74  reading or writing failed
  130, 143, 129  ended by SIGINT, SIGTERM, SIGHUP
)",
                    17);
}

} // namespace hw4::step
