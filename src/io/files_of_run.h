// The files of a run of many cases, so that no case overwrites what another reads or writes. What is known only later,
// when a line of a list is there, is compared with all that came before.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/file_identity.h"

namespace hw4 {

class FilesOfRun {
public:
    // Of the run itself, beside the cases. Throws Error (usage).
    void add_output(const std::string& output);
    // The same: what it reads from standard input or writes to standard output, so that no case can.
    void take_standard_input(const std::string& what);
    void take_standard_output(const std::string& what);
    // A case. Throws Error (usage) where its output is the input or the output of another one, or its input the output
    // of one; then it is not added. Names that cannot be looked at are left to whoever opens them.
    void add_case(const std::string& input, const std::string& output);

    // What must not be taken for what a killed run has left.
    const std::vector<FileIdentity>& kept() const { return kept_; }

private:
    using File = std::pair<dev_t, ino_t>;
    using Entry = std::tuple<dev_t, ino_t, std::string>; // of a directory

    // What a name leads to.
    struct Place {
        bool device = false; // or a pipe, which takes any number of outputs
        std::optional<File> file;
        std::optional<Entry> entry;
    };
    static Place place_of(const std::string& path, int standard_stream);
    void refuse_if_taken(const std::string& input, const std::string& output) const;
    void take_standard_streams(const std::string& input, const std::string& output);
    void refuse_if_output(const Place& place, const std::string& path, const std::string& why) const;
    void keep(const Place& place);
    void keep_output(const Place& place, const std::string& output);

    std::map<File, std::string> inputs_; // with their names
    std::map<File, std::string> outputs_;
    std::map<Entry, std::string> entries_; // of outputs
    std::vector<FileIdentity> kept_;
    std::string reads_standard_input_; // who does; empty: nobody
    std::string writes_standard_output_;
};

} // namespace hw4
