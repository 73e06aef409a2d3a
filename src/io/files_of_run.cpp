#include "src/io/files_of_run.h"

#include <sys/stat.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/standard_streams.h"
#include "src/io/output_file.h"

namespace hw4 {

// `standard_stream`: what - is.
FilesOfRun::Place FilesOfRun::place_of(const std::string& path, int standard_stream) {
    Place place;
    struct stat status {};
    const bool by_name = !is_standard_stream(path);
    if ((by_name ? ::stat(path.c_str(), &status) : ::fstat(standard_stream, &status)) == 0) {
        place.device = !S_ISREG(status.st_mode);
        place.file = {status.st_dev, status.st_ino};
    }
    if (!by_name) return place;
    try {
        if (const auto entry = entry_of_output(path))
            place.entry = {entry->first.device, entry->first.inode, entry->second};
    } catch (const Error&) { // who opens it says what is wrong
    }
    return place;
}

void FilesOfRun::refuse_if_output(const Place& place, const std::string& path, const std::string& why) const {
    if (place.device) return;
    const auto refuse = [&](const std::string& output) { throw Error(ExitCode::usage, path + ": " + why + output); };
    if (const auto other = place.file ? outputs_.find(*place.file) : outputs_.end(); other != outputs_.end())
        refuse(other->second);
    if (const auto other = place.entry ? entries_.find(*place.entry) : entries_.end(); other != entries_.end())
        refuse(other->second);
}

void FilesOfRun::keep(const Place& place) {
    if (place.file) kept_.push_back({place.file->first, place.file->second});
}

void FilesOfRun::keep_output(const Place& place, const std::string& output) {
    keep(place);
    if (place.device) return;
    if (place.file) outputs_.emplace(*place.file, output);
    if (place.entry) entries_.emplace(*place.entry, output);
}

// Whoever reads from standard input takes all of it, and of two who write to standard output none would be complete.
void FilesOfRun::refuse_if_taken(const std::string& input, const std::string& output) const {
    if (is_standard_stream(input) && !reads_standard_input_.empty())
        throw Error(ExitCode::usage, "standard input: taken by " + reads_standard_input_);
    if (is_standard_stream(output) && !writes_standard_output_.empty())
        throw Error(ExitCode::usage, "standard output: taken by " + writes_standard_output_);
}

void FilesOfRun::take_standard_streams(const std::string& input, const std::string& output) {
    if (is_standard_stream(input)) reads_standard_input_ = "the case for " + shown_output(output);
    if (is_standard_stream(output)) writes_standard_output_ = "the case of " + shown_input(input);
}

void FilesOfRun::take_standard_input(const std::string& what) { reads_standard_input_ = what; }
void FilesOfRun::take_standard_output(const std::string& what) { writes_standard_output_ = what; }

void FilesOfRun::add_output(const std::string& output) {
    refuse_if_taken("", output);
    const Place place = place_of(output, STDOUT_FILENO);
    refuse_if_output(place, output, "would overwrite the output ");
    keep_output(place, output);
    if (is_standard_stream(output)) take_standard_output("a report");
}

void FilesOfRun::add_case(const std::string& input, const std::string& output) {
    refuse_if_taken(input, output);
    const Place in = place_of(input, STDIN_FILENO);
    const Place out = place_of(output, STDOUT_FILENO);
    refuse_if_output(in, input, "input is the same file as output ");
    refuse_if_output(out, output, "would overwrite the output ");
    const bool same = !out.device && out.file && in.file == out.file;
    const auto read = out.device || !out.file ? inputs_.end() : inputs_.find(*out.file);
    if (same || read != inputs_.end())
        throw Error(ExitCode::usage, output + ": output is the same file as input " + (same ? input : read->second));
    keep(in);
    if (in.file) inputs_.emplace(*in.file, input);
    keep_output(out, output);
    take_standard_streams(input, output);
}

} // namespace hw4
