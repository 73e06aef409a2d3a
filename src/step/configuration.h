// All that decides the bytes of a training run, but for the tokens: the model's sizes, how many sequences of which
// length a step takes, how many steps the learning rate's schedule has, and the rates. each_setting() is the one list
// of it: the command line, a checkpoint's metadata and the comparison of both go through it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/contracts/contract.h"
#include "src/step/model.h"

namespace hw4::step {

inline constexpr const Contract* kStepContracts[] = {&kF32, &kBf16}; // arithmetic.h says what they are of a step

// "f32.step/1": another rounding anywhere in a step is another revision.
inline std::string step_revision(const Contract& contract) { return std::string(contract.name) + ".step/1"; }

struct Configuration {
    const Contract* contract = &kF32;
    Model model;
    int64_t batch = 4; // sequences of a step
    int64_t context = 512;
    int64_t steps = 100; // in all, however often a run is stopped and resumed
    int64_t seed = 1;
    double learning_rate = 1e-3; // the highest
    double clip = 1;             // the largest norm of a gradient
    double weight_decay = 0.1;
    double beta1 = 0.9;
    double beta2 = 0.95;
    double eps = 1e-8;
    int64_t micro_batch = 1; // a power of two; under bf16 alone it decides bytes

    bool is_bf16() const { return contract == &kBf16; }
};

// visit(name, the setting, least, most)
template <class Visit>
void each_setting(Configuration& settings, const Visit& visit) {
    constexpr int64_t kMostWidth = int64_t{1} << 16;
    constexpr int64_t kMany = int64_t{1} << 20;
    constexpr double kBelowOne = 0x1.fffffffffffffp-1;
    visit("width", settings.model.width, int64_t{2}, kMostWidth);
    visit("hidden", settings.model.hidden, int64_t{1}, kMostWidth);
    visit("layers", settings.model.layers, int64_t{1}, int64_t{1024});
    visit("heads", settings.model.heads, int64_t{1}, kMostWidth);
    visit("vocabulary", settings.model.vocabulary, int64_t{2}, kMany);
    visit("batch", settings.batch, int64_t{1}, kMany);
    visit("context", settings.context, int64_t{1}, kMany); // RoPE's table has no more positions
    visit("steps", settings.steps, int64_t{1}, int64_t{1} << 40);
    visit("seed", settings.seed, int64_t{0}, INT64_MAX);
    visit("learning_rate", settings.learning_rate, 0.0, 1e30);
    visit("clip", settings.clip, 1e-30, 1e30);
    visit("weight_decay", settings.weight_decay, 0.0, 1e6);
    visit("beta1", settings.beta1, 0.0, kBelowOne);
    visit("beta2", settings.beta2, 0.0, kBelowOne);
    visit("eps", settings.eps, 1e-30, 1e6);
    if (settings.is_bf16()) visit("micro_batch", settings.micro_batch, int64_t{1}, kMany);
}

// Names and values, the contract's revision first, a double as the shortest text that gives the same double.
using SettingTexts = std::vector<std::pair<std::string, std::string>>;
std::string text_of(int64_t value);
std::string text_of(double value);
std::string crc_text(uint64_t crc); // eight hexadecimal digits
SettingTexts texts_of(Configuration settings);

// The learning rate of a step, counted from 1: it rises by equal parts over the first tenth of all steps, rounded down,
// and falls from there as a cosine to a tenth of the highest at the last. In doubles by + - * / alone.
double learning_rate_of(const Configuration& settings, int64_t step);

// Sizes that no model can have together; empty where there are none.
std::string why_no_model(const Model& model);

struct Preset {
    const char* name;
    Model model;
    int64_t context;
};

// small, medium, large, xl, 2.7B, 71m, tiny; the first is the default. All take 4 sequences a step.
const std::vector<Preset>& presets();

} // namespace hw4::step
