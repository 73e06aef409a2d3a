#include "src/io/run_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "src/base/error.h"
#include "src/base/standard_streams.h"
#include "src/io/output_file.h"

namespace hw4 {
namespace {

constexpr const char* kFile = "/"; // not a name in a directory

[[noreturn]] void refuse(const std::string& what) { throw Error(ExitCode::usage, what); }

ExitCode code_of(int standard_stream) {
    return standard_stream == STDIN_FILENO ? ExitCode::no_input : ExitCode::cannot_create;
}

// The file that the name leads to; "-" is the standard stream.
std::optional<struct stat> look_at(const std::string& path, int standard_stream) {
    if (!is_standard_stream(path)) return status_of(path, code_of(standard_stream));
    struct stat status {};
    if (::fstat(standard_stream, &status) == 0) return status;
    const std::string shown = standard_stream == STDIN_FILENO ? shown_input(path) : shown_output(path);
    throw Error(code_of(standard_stream), shown + ": " + with_errno("cannot stat"));
}

bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

} // namespace

RunFiles::Place RunFiles::place_of(const std::string& path, int standard_stream) {
    Place place;
    if (const auto file = look_at(path, standard_stream)) {
        place.regular = S_ISREG(file->st_mode);
        place.keys.emplace_back(file->st_dev, file->st_ino, kFile);
        // A terminal or /dev/null takes any number of outputs.
        place.standard_output =
            is_standard_stream(path) || (!S_ISCHR(file->st_mode) && same_file(*file, *look_at("-", STDOUT_FILENO)));
    }
    if (!place.regular || is_standard_stream(path)) return place;
    const std::string end = behind_links(path, code_of(standard_stream));
    if (const auto directory = status_of(directory_of(end), code_of(standard_stream)))
        place.keys.emplace_back(directory->st_dev, directory->st_ino, std::filesystem::path(end).filename().string());
    return place;
}

const std::string* RunFiles::find(const Names& names, const Place& place, int standard_stream) {
    for (const Key& key : place.keys) {
        const auto at = names.find(key);
        if (at == names.end()) continue;
        if (std::get<2>(key) != kFile) return &at->second;
        // The file may be gone by now, and its number may belong to another file.
        const auto now = look_at(at->second, standard_stream);
        if (now && Key(now->st_dev, now->st_ino, kFile) == key) return &at->second;
    }
    return nullptr;
}

void RunFiles::add_input(const std::string& path) {
    const Place place = place_of(path, STDIN_FILENO);
    const std::string* const output = place.regular ? find(outputs_, place, STDOUT_FILENO) : nullptr;
    if (output != nullptr) refuse(shown_input(path) + ": input is the same file as output " + shown_output(*output));
    if ((is_standard_stream(path) && has_standard_input_) ||
        (!place.regular && find(inputs_, place, STDIN_FILENO) != nullptr))
        refuse(shown_input(path) + ": can be read only once, and is an input already");
    has_standard_input_ = has_standard_input_ || is_standard_stream(path);
    for (const Key& key : place.keys) inputs_[key] = path;
}

void RunFiles::add_output(const std::string& path) {
    const Place place = place_of(path, STDOUT_FILENO);
    if (place.standard_output && reserved_) refuse("standard output: is for the lines about the cases");
    const std::string* const input = place.regular ? find(inputs_, place, STDIN_FILENO) : nullptr;
    if (input != nullptr) refuse(shown_output(path) + ": output is the same file as input " + shown_input(*input));
    has_standard_output_ = has_standard_output_ || place.standard_output;
    if (!place.regular && !place.standard_output) return;
    const std::string* const output = find(outputs_, place, STDOUT_FILENO);
    if (output != nullptr) refuse(shown_output(path) + ": would overwrite the output " + shown_output(*output));
    for (const Key& key : place.keys) outputs_[key] = path;
}

} // namespace hw4
