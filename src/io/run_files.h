// The files that a run reads and writes, so that no output replaces an input or another output. Files are the same by
// whatever name: a symbolic link, a hard link, another path to the directory, standard input and output. Names are
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
    // an input already; no_input where the file system does not say what the file is.
    void add_input(const std::string& path);
    // Throws Error: usage where an input or another output is the same file; cannot_create as above. Devices and FIFOs
    // take any number of outputs.
    void add_output(const std::string& path);
    // From now on no output may be standard output: lines about cases go there.
    void reserve_standard_output() { reserved_ = true; }

    // Whether an output leads to standard output, by whatever name.
    bool has_standard_output() const { return has_standard_output_; }
    // Where lines for the user go then.
    FILE* lines() const { return has_standard_output_ ? stderr : stdout; }

private:
    // A directory and a name in it; or a file, and "/" as the name.
    using Key = std::tuple<dev_t, ino_t, std::string>;
    using Names = std::map<Key, std::string>;
    struct Place {
        std::vector<Key> keys;
        bool regular = true; // or not there yet
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
