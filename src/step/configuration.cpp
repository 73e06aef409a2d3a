#include "src/step/configuration.h"

#include <array>
#include <charconv>

namespace hw4::step {

std::string text_of(int64_t value) { return std::to_string(value); }

std::string text_of(double value) {
    std::array<char, 32> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

SettingTexts texts_of(Configuration settings) {
    SettingTexts texts;
    each_setting(settings,
                 [&](const char* name, const auto& value, auto, auto) { texts.emplace_back(name, text_of(value)); });
    return texts;
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
