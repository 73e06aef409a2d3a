// Which cases a run has: the names on the command line, or the lines of --pairs.
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
    std::exception_ptr flaw; // why the line that was to have them has none
};

// A line of a list is INPUT and OUTPUT with blanks between them. Names with blanks in them: a line with a tab is split
// there, and nowhere else. Lines that are empty or begin with # have none; a carriage return at the end is none of a
// name's.
class PairList {
public:
    // Those named, or where `path` is not empty the lines of that file; - is standard input. Throws Error (no_input).
    explicit PairList(std::vector<CaseNames> named, const std::string& path = "");

    // The next one, as soon as it is there; none after the last.
    std::optional<ListedPair> next();
    // Another thread calls this: from then on next() takes what is there, but waits for nothing.
    void give_up() { given_up_ = true; }

private:
    std::optional<std::string> next_line();
    bool read_more();
    bool wait_for_data() const;
    std::string place() const { return path_ + ":" + std::to_string(line_); }

    std::vector<CaseNames> named_;
    size_t next_named_ = 0;
    std::string path_; // for messages; empty: there is no list
    FileDescriptor opened_;
    int fd_ = -1;
    std::string read_; // and not yet taken
    bool ended_ = false;
    int64_t line_ = 0; // the number of the one taken last
    std::atomic<bool> given_up_{false};
};

// The names in a line; nothing where it is to have none. Throws Error (usage), which begins with `place`.
std::optional<CaseNames> pair_in(const std::string& text, const std::string& place);

} // namespace hw4
