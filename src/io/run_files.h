// The files that a run reads and writes; no output may replace an input or another output. The same file is recognized
// under any name: a symbolic link, a hard link, another path to the directory, standard input and output. Each name is
// compared with all that were added before.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace hw4 {

class RunFiles {
public:
    // Throws Error: usage where an output of the run is the same file, or where the file can be read only once and is
    // already an input; no_input where the file system cannot identify the file.
    void add_input(const std::string& path);
    // Throws Error: usage where an input or another output is the same file; cannot_create as above. Devices and FIFOs
    // accept any number of outputs.
    void add_output(const std::string& path);
    // From now on no output may be standard output: it is for lines about cases.
    void reserve_standard_output() { reserved_ = true; }

    // Whether an output leads to standard output, under any name.
    bool has_standard_output() const { return has_standard_output_; }
    // The stream for lines to the user.
    FILE* lines() const { return has_standard_output_ ? stderr : stdout; }

private:
    // A directory and a name in it; or a file, and "/" as the name.
    using Key = std::tuple<dev_t, ino_t, std::string>;
    using Names = std::map<Key, std::string>;
    struct Place {
        std::vector<Key> keys;
        bool regular = true; // or does not exist yet
        bool standard_output = false;
    };
    static Place place_of(const std::string& path, int standard_stream);
    static const std::string* find(const Names& names, const Place& place, int standard_stream);

    Names inputs_;
    Names outputs_;
    bool reserved_ = false; // standard output
    bool has_standard_input_ = false;
    bool has_standard_output_ = false;
};

} // namespace hw4
