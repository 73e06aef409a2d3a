// The cases of a run: the names on the command line, or the lines of --pairs.
#pragma once

#include <atomic>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/commands/options.h"

namespace hw4 {

struct ListedPair {
    CaseNames names;
    std::exception_ptr flaw; // the reason why the line has no names
};

// A line of a list is INPUT and OUTPUT, separated by blanks. A line with a tab is split only there, so that names may
// contain blanks. Lines that are empty or begin with # are ignored; a carriage return at the end is not part of a name.
class PairList {
public:
    // The named cases, or where `path` is not empty that file's lines; - is standard input. Throws Error (no_input).
    explicit PairList(std::vector<CaseNames> named, const std::string& path = "");

    // The next pair, as soon as it arrives; none after the last.
    std::optional<ListedPair> next();
    // Another thread calls this: from then on next() returns available lines, but does not wait.
    void give_up() { given_up_ = true; }

private:
    std::optional<std::string> next_line();
    bool read_more();
    bool wait_for_data() const;
    std::string place() const { return path_ + ":" + std::to_string(line_); }

    std::vector<CaseNames> named_;
    size_t next_named_ = 0;
    std::string path_; // for messages; empty: no list
    FileDescriptor opened_;
    int fd_ = -1;
    std::string read_; // read and not yet taken
    bool ended_ = false;
    int64_t line_ = 0; // number of the last taken line
    std::atomic<bool> given_up_{false};
};

// The names in a line; nothing for an ignored line. Throws Error (usage), whose message begins with `place`.
std::optional<CaseNames> pair_in(const std::string& text, const std::string& place);

} // namespace hw4
