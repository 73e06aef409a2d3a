// Any words as hw4's arguments: refused in one line, or options that mean the same when they are written out.
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/commands/options.h"
#include "tests/fuzz/targets.h"

namespace hw4::fuzz {
namespace {

using Words = std::vector<std::string>;

Words words_of(const std::string& bytes) {
    Words words;
    for (size_t at = 0; at < bytes.size();) {
        const size_t end = std::min(bytes.find('\0', at), bytes.size());
        words.push_back(bytes.substr(at, end - at));
        at = end + 1;
    }
    return words;
}

bool is_one_line(const std::string& text) {
    return std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

struct Parsed {
    std::optional<Options> options;
    std::string message; // why there are none
};

Parsed parsed(Words words) {
    words.insert(words.begin(), "hw4");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    try {
        return {parse_options(static_cast<int>(words.size()), argv.data()), ""};
    } catch (const Error& error) {
        expect(error.code() == ExitCode::usage, "exit code " + std::to_string(static_cast<int>(error.code())));
        expect(*error.what() != '\0' && is_one_line(error.what()), "not one plain line: " + std::string(error.what()));
        return {std::nullopt, error.what()};
    }
}

Words names_of(const Options& options) {
    Words names;
    if (options.arrays.given()) {
        const Words outputs = options.outputs_of(options.cases.front());
        names = options.arrays.inputs();
        names.insert(names.end(), outputs.begin(), outputs.end());
        return names;
    }
    for (const CaseNames& of_case : options.cases) names.insert(names.end(), {of_case.input, of_case.output});
    return names;
}

bool same(const Options& a, const Options& b) {
    return a.action == b.action && a.device == b.device && a.engine.contract == b.engine.contract &&
           a.engine.kernel == b.engine.kernel && a.kernel_file == b.kernel_file &&
           a.engine.streams == b.engine.streams && a.engine.copies == b.engine.copies &&
           a.engine.threads == b.engine.threads && a.gpus == b.gpus && a.causal == b.causal &&
           a.operation == b.operation && a.lse == b.lse && a.time == b.time && a.sync == b.sync &&
           a.gather == b.gather && a.json == b.json && a.trace == b.trace && a.pairs == b.pairs &&
           names_of(a) == names_of(b);
}

bool same(const Parsed& a, const Parsed& b) {
    return a.message == b.message && a.options.has_value() == b.options.has_value() &&
           (!a.options || same(*a.options, *b.options));
}

std::string listed(const std::vector<int>& cards) {
    if (cards.size() < 2) return cards.empty() ? "all" : "1";
    std::string list;
    for (const int card : cards) list += (list.empty() ? "" : ",") + std::to_string(card);
    return list;
}

// The options as a user would write them out in full.
Words written_out(const Options& options) {
    constexpr const char* kDevices[] = {"auto", "gpu", "cpu"};
    Words words = {
        "--contract", options.engine.contract->name,          "--device", kDevices[static_cast<int>(options.device)],
        "--streams",  std::to_string(options.engine.streams), "--copies", name_of(options.engine.copies)};
    if (!options.engine.kernel.empty()) words.push_back("--kernel=" + options.engine.kernel);
    if (!options.kernel_file.empty()) words.push_back("--kernel-file=" + options.kernel_file);
    if (!options.lse.empty()) words.push_back("--lse=" + options.lse);
    if (!options.json.empty()) words.push_back("--json=" + options.json);
    if (!options.trace.empty()) words.push_back("--trace=" + options.trace);
    if (options.gpus) words.push_back("--gpus=" + listed(*options.gpus));
    if (options.engine.threads != 0) words.insert(words.end(), {"--threads", std::to_string(options.engine.threads)});
    if (options.causal) words.emplace_back("--causal");
    if (options.operation != nullptr) words.push_back("--" + std::string(options.operation->name));
    if (options.time) words.emplace_back("--time");
    if (options.sync) words.emplace_back("--sync");
    if (options.gather) words.emplace_back("--gather");
    if (!options.pairs.empty()) words.push_back("--pairs=" + options.pairs);
    constexpr const char* kArrays[] = {"--q=", "--k=", "--v=", "--do=", "--dq=", "--dk=", "--dv="};
    for (size_t i = 0; i < std::size(kArrays); ++i) {
        const std::string& name = i < kMostInputs ? options.arrays.in[i] : options.arrays.out[i - kMostInputs];
        if (!name.empty()) words.push_back(kArrays[i] + name);
    }
    words.emplace_back("--");
    Words names = names_of(options);
    if (options.arrays.given())
        names = options.arrays.gradients().empty() ? Words{options.cases.front().output} : Words();
    words.insert(words.end(), names.begin(), names.end());
    return words;
}

void check_meaning(const Options& options, const Words& words) {
    const auto given = [&](const std::string& name) { return std::count(words.begin(), words.end(), name) > 0; };
    expect(options.engine.streams >= 1 && options.engine.streams <= 16, "streams out of range");
    expect(options.engine.threads >= 0 && options.engine.threads <= 1024, "threads out of range");
    if (options.action != Action::run) return;
    expect(options.lse.empty() || !options.many(), "one file for the logsumexps of many cases");
    for (const std::string& name : names_of(options))
        expect(given(name) || options.arrays.given(), "names that nobody gave");
    const Parsed again = parsed(written_out(options));
    expect(again.options.has_value() && same(*again.options, options), "written out they mean something else");
}

} // namespace

void command_line(const uint8_t* data, size_t size) {
    const Words words = words_of(std::string(data, data + size));
    const Parsed first = parsed(words);
    if (first.options) check_meaning(*first.options, words);
    expect(same(first, parsed(words)), "parsed twice they mean two things");
}

} // namespace hw4::fuzz
