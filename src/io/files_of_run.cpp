#include "src/io/files_of_run.h"

#include <sys/stat.h>

#include "src/base/error.h"
#include "src/io/output_file.h"

namespace hw4 {

FilesOfRun::Place FilesOfRun::place_of(const std::string& path) {
    Place place;
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) {
        place.device = !S_ISREG(status.st_mode);
        place.file = {status.st_dev, status.st_ino};
    }
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

void FilesOfRun::add_output(const std::string& output) {
    const Place place = place_of(output);
    refuse_if_output(place, output, "would overwrite the output ");
    keep_output(place, output);
}

void FilesOfRun::add_case(const std::string& input, const std::string& output) {
    const Place in = place_of(input);
    const Place out = place_of(output);
    refuse_if_output(in, input, "input is the same file as output ");
    refuse_if_output(out, output, "would overwrite the output ");
    const bool same = !out.device && out.file && in.file == out.file;
    const auto read = out.device || !out.file ? inputs_.end() : inputs_.find(*out.file);
    if (same || read != inputs_.end())
        throw Error(ExitCode::usage, output + ": output is the same file as input " + (same ? input : read->second));
    keep(in);
    if (in.file) inputs_.emplace(*in.file, input);
    keep_output(out, output);
}

} // namespace hw4
