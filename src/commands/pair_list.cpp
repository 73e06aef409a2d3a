#include "src/commands/pair_list.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <sstream>

#include "src/base/error.h"
#include "src/base/standard_streams.h"

namespace hw4 {
namespace {

constexpr int kPollMilliseconds = 50;          // the delay before a waiting reader notices give_up()
constexpr size_t kMostBytes = size_t{1} << 16; // per line: more than two names can have

std::vector<std::string> names_in(const std::string& line) {
    const size_t tab = line.find('\t');
    if (tab != std::string::npos) {
        if (line.find('\t', tab + 1) != std::string::npos) return {};
        return {line.substr(0, tab), line.substr(tab + 1)};
    }
    std::istringstream words(line);
    std::vector<std::string> names;
    for (std::string word; words >> word;) names.push_back(word);
    return names;
}

} // namespace

std::optional<CaseNames> pair_in(const std::string& text, const std::string& place) {
    const bool from_windows = !text.empty() && text.back() == '\r';
    const std::string line = text.substr(0, text.size() - (from_windows ? 1 : 0));
    const size_t first = line.find_first_not_of(" \t\r\v\f");
    if (first == std::string::npos || line[0] == '#') return std::nullopt;
    const auto refuse = [&](const std::string& why) { throw Error(ExitCode::usage, place + ": " + why); };
    if (line.find('\0') != std::string::npos) refuse("a byte 0, which no name has");
    const std::vector<std::string> names = names_in(line);
    if (names.empty()) refuse("need one tab, between INPUT and OUTPUT, got several");
    if (names.size() != 2)
        refuse("need INPUT and OUTPUT, got " + std::to_string(names.size()) + (names.size() == 1 ? " name" : " names") +
               "; a tab goes between names with blanks");
    if (names[0].empty() || names[1].empty()) refuse("need a name on both sides of the tab");
    return CaseNames{names[0], names[1]};
}

PairList::PairList(std::vector<CaseNames> named, const std::string& path)
    : named_(std::move(named)), path_(shown_input(path)) {
    if (path.empty()) return;
    if (!is_standard_stream(path)) opened_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    fd_ = is_standard_stream(path) ? STDIN_FILENO : opened_.get();
    if (fd_ < 0) throw Error(ExitCode::no_input, path_ + ": " + with_errno("cannot open"));
}

std::optional<ListedPair> PairList::next() {
    if (next_named_ < named_.size()) return ListedPair{named_[next_named_++], nullptr};
    if (path_.empty()) return std::nullopt;
    try {
        while (const std::optional<std::string> line = next_line())
            if (const std::optional<CaseNames> names = pair_in(*line, place())) return ListedPair{*names, nullptr};
        return std::nullopt;
    } catch (const Error&) {
        return ListedPair{{}, std::current_exception()};
    }
}

std::optional<std::string> PairList::next_line() {
    size_t end = 0;
    while ((end = read_.find('\n')) == std::string::npos && !ended_) {
        if (read_.size() > kMostBytes) {
            ended_ = true; // the rest is not a list
            read_.clear();
            throw Error(ExitCode::usage, path_ + ":" + std::to_string(line_ + 1) + ": a line of more than " +
                                             std::to_string(kMostBytes) + " bytes");
        }
        if (!read_more()) ended_ = true;
    }
    if (end == std::string::npos && read_.empty()) return std::nullopt;
    ++line_;
    const std::string line = read_.substr(0, end);
    read_.erase(0, end == std::string::npos ? end : end + 1);
    return line;
}

// False at the end.
bool PairList::read_more() {
    std::array<char, 4096> some{};
    for (;;) {
        if (!wait_for_data()) return false;
        const ssize_t got = ::read(fd_, some.data(), some.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            ended_ = true;
            read_.clear();
            throw Error(ExitCode::io_error, path_ + ": " + with_errno("cannot read"));
        }
        read_.append(some.data(), static_cast<size_t>(got));
        return got > 0;
    }
}

// False where no waiting is allowed any more.
bool PairList::wait_for_data() const {
    pollfd waited{fd_, POLLIN, 0};
    for (;;) {
        const bool last_look = given_up_;
        const int ready = ::poll(&waited, 1, last_look ? 0 : kPollMilliseconds);
        if (ready > 0 || (ready < 0 && errno != EINTR)) return true; // read() reports the error
        if (last_look) return false;
    }
}

} // namespace hw4
