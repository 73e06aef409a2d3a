#include "src/step/configuration.h"

#include <array>
#include <charconv>
#include <cstdio>

#include "src/contracts/rope.h"

namespace hw4::step {

std::string text_of(int64_t value) { return std::to_string(value); }

std::string text_of(double value) {
    std::array<char, 32> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

std::string crc_text(uint64_t crc) {
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), "%08llx", static_cast<unsigned long long>(crc));
    return digits.data();
}

SettingTexts texts_of(Configuration settings) {
    SettingTexts texts = {{"contract", step_revision(*settings.contract)}};
    each_setting(settings,
                 [&](const char* name, const auto& value, auto, auto) { texts.emplace_back(name, text_of(value)); });
    return texts;
}

double learning_rate_of(const Configuration& settings, int64_t step) {
    const int64_t warm_up = settings.steps / 10;
    if (step <= warm_up) return settings.learning_rate * static_cast<double>(step) / static_cast<double>(warm_up);
    const double share = static_cast<double>(step - warm_up) / static_cast<double>(settings.steps - warm_up);
    const double lowest = settings.learning_rate * 0.1;
    double sine = 0;
    double cosine = 0;
    sine_cosine(0x1.921fb54442d18p+1 * share, sine, cosine); // pi
    return lowest + 0.5 * (1 + cosine) * (settings.learning_rate - lowest);
}

std::string why_no_model(const Model& model) {
    if (model.width % model.heads == 0 && model.head_width() % 2 == 0) return "";
    return "width " + std::to_string(model.width) + " in " + std::to_string(model.heads) +
           " heads: need heads of equal and even width";
}

const std::vector<Preset>& presets() {
    static const std::vector<Preset> kPresets = {
        {"small", {768, 3072, 12, 12, 10000}, 512},  {"medium", {1024, 4096, 24, 16, 10000}, 512},
        {"large", {1280, 5120, 36, 20, 10000}, 512}, {"xl", {1600, 6400, 48, 25, 10000}, 512},
        {"2.7B", {2560, 10240, 32, 32, 10000}, 512}, {"71m", {512, 1408, 12, 8, 32000}, 512},
        {"tiny", {64, 256, 2, 4, 256}, 64},
    };
    return kPresets;
}

} // namespace hw4::step
