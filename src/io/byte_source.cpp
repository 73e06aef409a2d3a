#include "src/io/byte_source.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/standard_streams.h"

namespace hw4 {
namespace {

constexpr size_t kReadStep = size_t{1} << 30; // one read() moves at most 2 GiB on Linux
constexpr int kPollMilliseconds = 50;         // the delay before a waiting reader notices give_up()

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

size_t PlainSource::read(void* to, size_t size) {
    return read_all(to, size, [this](void* at, size_t step, size_t) {
        if (random_access() == nullptr) wait_for_data();
        return ::read(fd_.get(), at, step);
    });
}

size_t PlainSource::read_at(uint64_t offset, void* to, size_t size) const {
    return read_all(to, size, [this, offset](void* at, size_t step, size_t done) {
        return ::pread(fd_.get(), at, step, begin_ + static_cast<off_t>(offset + done));
    });
}

bool PlainSource::changed() const {
    struct stat now {};
    if (::fstat(fd_.get(), &now) != 0) throw Error(ExitCode::io_error, path_ + ": " + with_errno("cannot stat"));
    return S_ISREG(now.st_mode) && (now.st_size != opened_.st_size || now.st_mtim.tv_sec != opened_.st_mtim.tv_sec ||
                                    now.st_mtim.tv_nsec != opened_.st_mtim.tv_nsec);
}

// `read_some(at, step, done)` is one system call.
template <class ReadSome>
size_t PlainSource::read_all(void* to, size_t size, const ReadSome& read_some) const {
    auto* bytes = static_cast<unsigned char*>(to);
    size_t done = 0;
    while (done < size) {
        const ssize_t got = read_some(bytes + done, std::min(size - done, kReadStep), done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw Error(ExitCode::io_error, path_ + ": " + with_errno("cannot read"));
        if (got == 0) break;
        done += static_cast<size_t>(got);
    }
    return done;
}

void PlainSource::wait_for_data() const {
    pollfd waited{fd_.get(), POLLIN, 0};
    while (!given_up_) {
        const int ready = ::poll(&waited, 1, kPollMilliseconds);
        if (ready > 0 || (ready < 0 && errno != EINTR)) return; // read() reports the error
    }
    throw Error(ExitCode::io_error, path_ + ": reading was given up");
}

} // namespace hw4
