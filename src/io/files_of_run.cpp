#include "src/io/files_of_run.h"

#include <sys/stat.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/standard_streams.h"
#include "src/io/output_file.h"

namespace hw4 {
namespace {

template <class Key, class Value>
const Value* found(const std::map<Key, Value>& in, const std::optional<Key>& key) {
    const auto at = key ? in.find(*key) : in.end();
    return at == in.end() ? nullptr : &at->second;
}

bool leads_to_standard_output(const struct stat& status) {
    struct stat standard {};
    // A terminal or /dev/null is nobody's own.
    return !S_ISCHR(status.st_mode) && ::fstat(STDOUT_FILENO, &standard) == 0 && same_file(status, standard);
}

} // namespace

// `standard_stream`: what - is.
FilesOfRun::Place FilesOfRun::place_of(const std::string& path, int standard_stream) {
    Place place;
    struct stat status {};
    const bool by_name = !is_standard_stream(path);
    if ((by_name ? ::stat(path.c_str(), &status) : ::fstat(standard_stream, &status)) == 0) {
        place.regular = S_ISREG(status.st_mode);
        place.file = {status.st_dev, status.st_ino};
        place.standard_output = leads_to_standard_output(status);
    }
    if (!by_name) {
        place.standard_output = standard_stream == STDOUT_FILENO;
        return place;
    }
    try {
        if (const auto entry = entry_of_output(path))
            place.entry = {entry->first.device, entry->first.inode, entry->second};
    } catch (const Error&) { // who opens it says what is wrong
    }
    return place;
}

void FilesOfRun::refuse_output(const Place& place, const std::string& output) const {
    const auto refuse = [](const std::string& what) { throw Error(ExitCode::usage, what); };
    if (place.standard_output && !writes_standard_output_.empty())
        refuse("standard output: taken by " + writes_standard_output_);
    if (!place.regular) return;
    for (const std::string* other : {found(outputs_, place.file), found(output_entries_, place.entry)})
        if (other != nullptr) refuse(output + ": would overwrite the output " + *other);
    const Readers* const readers = found(inputs_, place.file);
    const std::string* const input = readers != nullptr ? &readers->name : found(input_entries_, place.entry);
    if (input != nullptr) refuse(output + ": output is the same file as input " + *input);
}

void FilesOfRun::refuse_input(const Place& place, const std::string& input) const {
    const auto refuse = [](const std::string& what) { throw Error(ExitCode::usage, what); };
    if (is_standard_stream(input) && !reads_standard_input_.empty())
        refuse("standard input: taken by " + reads_standard_input_);
    const Readers* const readers = found(inputs_, place.file);
    if (!place.regular && readers != nullptr) refuse(input + ": can be read once, and is input " + readers->name);
    if (!place.regular) return;
    for (const std::string* other : {found(outputs_, place.file), found(output_entries_, place.entry)})
        if (other != nullptr) refuse(input + ": input is the same file as output " + *other);
}

void FilesOfRun::keep_input(const Place& place, const std::string& input) {
    if (place.file) {
        kept_.push_back({place.file->first, place.file->second});
        Readers& readers = inputs_[*place.file];
        if (readers.count++ == 0) readers.name = shown_input(input);
    }
    if (place.entry && place.regular) input_entries_.emplace(*place.entry, input);
}

void FilesOfRun::keep_output(const Place& place, const std::string& output) {
    if (place.file) kept_.push_back({place.file->first, place.file->second});
    has_standard_output_ = has_standard_output_ || place.standard_output;
    if (!place.regular) return;
    if (place.file) outputs_.emplace(*place.file, shown_output(output));
    if (place.entry) output_entries_.emplace(*place.entry, output);
}

void FilesOfRun::take_standard_output(const std::string& what) { writes_standard_output_ = what; }

void FilesOfRun::add_input(const std::string& input, const std::string& what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    keep_input(place_of(input, STDIN_FILENO), input);
    if (is_standard_stream(input)) reads_standard_input_ = what;
}

void FilesOfRun::add_output(const std::string& output) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Place place = place_of(output, STDOUT_FILENO);
    refuse_output(place, output);
    keep_output(place, output);
    if (place.standard_output) writes_standard_output_ = "a report";
}

FilesOfRun::OfCase FilesOfRun::add_case(const std::string& input, const std::string& output) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Place in = place_of(input, STDIN_FILENO);
    const Place out = place_of(output, STDOUT_FILENO);
    refuse_input(in, input);
    refuse_output(out, output);
    if (out.regular && out.file && in.file == out.file)
        throw Error(ExitCode::usage, output + ": output is the same file as input " + input);
    keep_input(in, input);
    keep_output(out, output);
    if (is_standard_stream(input)) reads_standard_input_ = "the case for " + shown_output(output);
    if (out.standard_output) writes_standard_output_ = "the case of " + shown_input(input);
    return {in.file, out.regular ? out.file : std::nullopt};
}

void FilesOfRun::forget(const OfCase& settled) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (settled.output) outputs_.erase(*settled.output);
    const auto readers = settled.input ? inputs_.find(*settled.input) : inputs_.end();
    if (readers != inputs_.end() && --readers->second.count == 0) inputs_.erase(readers);
}

} // namespace hw4
