#include "src/io/open_input.h"

#include <fcntl.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/standard_streams.h"

namespace hw4 {
namespace {

FileDescriptor opened(const std::string& name) {
    if (is_standard_stream(name)) return duplicate_of(STDIN_FILENO);
    return FileDescriptor(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
}

} // namespace

OpenFile open_input(const std::string& name) {
    const std::string path = shown_input(name);
    const bool standard = is_standard_stream(name);
    OpenFile file{opened(name), {}, 0};
    if (!file.fd.valid()) throw Error(ExitCode::no_input, path + ": " + with_errno("cannot open"));
    if (::fstat(file.fd.get(), &file.status) != 0)
        throw Error(ExitCode::io_error, path + ": " + with_errno("cannot stat"));
    if (S_ISDIR(file.status.st_mode))
        throw Error(ExitCode::no_input, path + (standard ? ": is closed, or a directory; need a file or a pipe"
                                                         : ": is a directory, need a file"));
    if (standard && S_ISREG(file.status.st_mode)) file.begin = ::lseek(file.fd.get(), 0, SEEK_CUR);
    if (file.begin < 0) throw Error(ExitCode::io_error, path + ": " + with_errno("cannot tell its place"));
    return file;
}

void refuse_stream(const std::string& name, const std::string& why) {
    struct stat status {};
    const bool other = ::stat(name.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
    if (is_standard_stream(name) || other)
        throw Error(ExitCode::usage, shown_input(name) + ": " + why + ", need a plain file: no pipe, no gzip");
}

} // namespace hw4
