// The files of a run of many cases, so that no case overwrites what another reads or writes. What is known only later,
// when a line of a list is there, is compared with all that came before.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/file_identity.h"

namespace hw4 {

class FilesOfRun {
    using File = std::pair<dev_t, ino_t>;

public:
    // A case's, as far as they are there.
    struct OfCase {
        std::optional<File> input;
        std::optional<File> output;
    };

    // Of the run itself, beside the cases; `what` is in messages. Throws Error (usage).
    void add_input(const std::string& input, const std::string& what);
    void add_output(const std::string& output);
    // Standard output is the run's own.
    void take_standard_output(const std::string& what);
    // A case. Throws Error (usage) where its output is the input or the output of another one, its input the output of
    // one, or a pipe that another one reads; then it is not added. Names that cannot be looked at are left to whoever
    // opens them.
    OfCase add_case(const std::string& input, const std::string& output);
    // By any thread, once a case is settled. From then on only the names count: its files may be gone, and their
    // numbers those of others.
    void forget(const OfCase& settled);

    // Whether one of the outputs leads to standard output, by whatever name.
    bool has_standard_output() const { return has_standard_output_; }
    // What must not be taken for what a killed run has left.
    const std::vector<FileIdentity>& kept() const { return kept_; }

private:
    using Entry = std::tuple<dev_t, ino_t, std::string>; // of a directory

    // What a name leads to.
    struct Place {
        bool regular = true; // or not there yet; no: a pipe or a device, which takes any number of outputs
        bool standard_output = false;
        std::optional<File> file;
        std::optional<Entry> entry;
    };
    struct Readers {
        std::string name;
        int count = 0;
    };
    static Place place_of(const std::string& path, int standard_stream);
    void refuse_output(const Place& place, const std::string& output) const;
    void refuse_input(const Place& place, const std::string& input) const;
    void keep_input(const Place& place, const std::string& input);
    void keep_output(const Place& place, const std::string& output);

    std::mutex mutex_;
    std::map<File, Readers> inputs_;
    std::map<File, std::string> outputs_;
    std::map<Entry, std::string> input_entries_;
    std::map<Entry, std::string> output_entries_;
    std::vector<FileIdentity> kept_;
    std::string reads_standard_input_; // who does; empty: nobody
    std::string writes_standard_output_;
    bool has_standard_output_ = false;
};

} // namespace hw4
