// Loaded before the C library (LD_PRELOAD), it makes reading and writing go wrong as a disk or a signal would. What
// goes wrong is in the environment:
//
//     FAULT_FILE=PATH         the file whose reading goes wrong
//     FAULT_SHORT_READS=N     at most N bytes a call, and every third call is interrupted (EINTR)
//     FAULT_READ_ERROR_AT=N   EIO for every call that would reach byte N
//     FAULT_NO_ROOM_AT=N      ENOSPC for every call that would write byte N of a file; no room is promised before
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace {

// The number in the environment; -1: none.
off_t setting(const char* name) {
    const char* text = std::getenv(name);
    return text == nullptr ? -1 : static_cast<off_t>(std::atoll(text));
}

bool is_chosen(int fd) {
    struct stat open {};
    struct stat chosen {};
    const char* path = std::getenv("FAULT_FILE");
    return path != nullptr && ::fstat(fd, &open) == 0 && ::stat(path, &chosen) == 0 && open.st_ino == chosen.st_ino &&
           open.st_dev == chosen.st_dev;
}

ssize_t fail(int error) {
    errno = error;
    return -1;
}

bool reaches(off_t at, off_t from, size_t size) { return at >= from && at < from + static_cast<off_t>(size); }

template <class Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

ssize_t read_badly(int fd, void* to, size_t size, off_t offset) {
    static auto* real = next<ssize_t(int, void*, size_t, off_t)>("pread64");
    if (!is_chosen(fd)) return real(fd, to, size, offset);
    const off_t error_at = setting("FAULT_READ_ERROR_AT");
    if (error_at >= 0 && reaches(error_at, offset, size)) return fail(EIO);
    const off_t most = setting("FAULT_SHORT_READS");
    if (most < 0) return real(fd, to, size, offset);
    static std::atomic<unsigned> calls{0};
    if (++calls % 3 == 0) return fail(EINTR);
    return real(fd, to, std::min(size, static_cast<size_t>(most)), offset);
}

ssize_t write_badly(int fd, const void* from, size_t size, off_t offset) {
    static auto* real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite64");
    const off_t full_at = setting("FAULT_NO_ROOM_AT");
    if (full_at >= 0 && reaches(full_at, offset, size)) return fail(ENOSPC);
    return real(fd, from, size, offset);
}

int reserve_badly(int fd, int mode, off_t offset, off_t size) {
    static auto* real = next<int(int, int, off_t, off_t)>("fallocate64");
    if (setting("FAULT_NO_ROOM_AT") >= 0) return static_cast<int>(fail(EOPNOTSUPP));
    return real(fd, mode, offset, size);
}

} // namespace

extern "C" {
ssize_t pread(int fd, void* to, size_t size, off_t offset) { return read_badly(fd, to, size, offset); }
ssize_t pread64(int fd, void* to, size_t size, off64_t offset) { return read_badly(fd, to, size, offset); }
ssize_t pwrite(int fd, const void* from, size_t size, off_t offset) { return write_badly(fd, from, size, offset); }
ssize_t pwrite64(int fd, const void* from, size_t size, off64_t offset) { return write_badly(fd, from, size, offset); }
int fallocate(int fd, int mode, off_t offset, off_t size) { return reserve_badly(fd, mode, offset, size); }
int fallocate64(int fd, int mode, off64_t offset, off64_t size) { return reserve_badly(fd, mode, offset, size); }
}
