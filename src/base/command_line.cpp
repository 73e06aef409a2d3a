#include "src/base/command_line.h"

#include <algorithm>
#include <deque>
#include <stdexcept>

namespace hw4 {
namespace {

constexpr int kLong = 256; // codes of long options begin here, above all letters

// The option that getopt_long() has just refused: a letter, perhaps one of several in the current word, or the previous
// word, a long option. getopt_long() leaves the letter or the code in optopt, 0 for an unknown long option.
std::string refused_option(char** argv) {
    if (optopt > 0 && optopt < kLong) return {'-', static_cast<char>(optopt)};
    return argv[optind - 1];
}

// The reason why getopt_long(), with letters that begin with ':', has just returned `code`, ':' or '?'.
std::string why_refused(int code, char** argv, const option* options) {
    const std::string given = refused_option(argv);
    if (code == ':') return "option '" + given + "' needs a value";
    if (optopt >= kLong) return "option '" + given + "' takes no value";
    std::string meant;
    if (optopt == 0) {
        std::vector<std::string> names;
        for (const option* known = options; known->name != nullptr; ++known) names.emplace_back(known->name);
        meant = did_you_mean(given.substr(2, given.find('=') - 2), names, "--");
    }
    return "unknown or ambiguous option '" + given + "'" + meant;
}

constexpr char kSeeHelp[] = "; see --help";

} // namespace

void usage_error(const std::string& what) { throw Error(ExitCode::usage, what + kSeeHelp); }

void name_command(Error& error, const std::string& command) {
    std::string text = error.what();
    const size_t at = text.rfind(kSeeHelp);
    if (at == std::string::npos) return;
    text.insert(text.find("--", at), command + " ");
    static_cast<std::runtime_error&>(error) = std::runtime_error(text);
}

void refuse_value(const std::string& option, const std::string& text, const std::string& need) {
    throw std::invalid_argument("--" + option + " '" + text + "': need " + need);
}

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> words(1);
    for (const char letter : text) {
        if (letter == separator)
            words.emplace_back();
        else
            words.back() += letter;
    }
    return words;
}

Action take_options(int argc, char** argv, const std::vector<CommandOption>& list,
                    void (*refuse)(const std::string& what)) {
    constexpr int kFirst = kLong; // codes of the list; common options follow
    const int help = kFirst + static_cast<int>(list.size());
    std::deque<std::string> dashed;
    std::vector<option> options;
    for (size_t i = 0; i < list.size(); ++i) {
        const int code = kFirst + static_cast<int>(i);
        options.push_back({list[i].name.c_str(), list[i].has_value, nullptr, code});
        if (list[i].name.find('_') == std::string::npos) continue;
        dashed.push_back(list[i].name);
        std::replace(dashed.back().begin(), dashed.back().end(), '_', '-');
        options.push_back({dashed.back().c_str(), list[i].has_value, nullptr, code});
    }
    options.insert(
        options.end(),
        {{"help", no_argument, nullptr, help}, {"version", no_argument, nullptr, help + 1}, {nullptr, 0, nullptr, 0}});
    opterr = 0; // one line of our own instead of getopt's
    optind = 0; // start again, also when a test parses twice
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no other threads yet
    for (int code = 0; (code = getopt_long(argc, argv, ":hV", options.data(), nullptr)) != -1;) {
        if (code == 'h' || code == help) return Action::help;
        if (code == 'V' || code == help + 1) return Action::version;
        if (code >= kFirst) {
            try {
                list[static_cast<size_t>(code - kFirst)].take(optarg);
            } catch (const std::invalid_argument& value) {
                refuse(value.what());
            }
            continue;
        }
        const CommandOption* const without =
            code == ':' && optopt >= kFirst ? &list[static_cast<size_t>(optopt - kFirst)] : nullptr;
        if (without == nullptr || !without->take_none || !without->take_none())
            refuse(why_refused(code, argv, options.data()));
    }
    return Action::run;
}

} // namespace hw4
