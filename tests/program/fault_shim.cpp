// Loaded before the C library (LD_PRELOAD), this library makes calls fail as a full disk, a signal or a lack of memory
// would. The environment selects the fault:
//
//     FAULT_CALL=NAME   open, read, pread, write, pwrite, lseek, close, fsync, rename, stat, fstat, fchmod, fallocate,
//                       fcntl, poll, mmap, sched_getaffinity, malloc (and similar) or pthread_create
//     FAULT_AT=K        the K-th such call, from 1; among file calls only the program's own, and none on /proc.
//                       A read() takes all that it asks for, so that the number of reads does not depend on how
//                       much a pipe holds at a time
//     FAULT_STAYS=1     and every call after it
//     FAULT_HOW=N       fails with this errno; "short": reads or writes half, at least a byte; "none": nothing at all;
//                       "wait": succeeds, but only after FAULT_FIRED has been removed
//     FAULT_FIRED=PATH  is created at the fault and names the file that the call acted on, if any
//
// And, with or without a fault:
//
//     FAULT_LOG=PATH    gets a line for each file call of the program, in order: the call's name and the file's
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>

// The C library's own functions, under the names that remain when malloc is replaced.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}
// NOLINTEND(bugprone-reserved-identifier)

namespace {

// The number in the environment; -1: none.
off_t setting(const char* name) {
    const char* text = std::getenv(name);
    return text == nullptr ? -1 : static_cast<off_t>(std::strtoll(text, nullptr, 10));
}

template <class Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

template <class Result = int>
Result fail(int error) {
    errno = error;
    return static_cast<Result>(-1);
}

enum class How { none, error, part, nothing, wait };

struct Plan {
    const char* call = nullptr; // null: no fault is asked for, or it is too early
    const char* fired = nullptr;
    const char* log = nullptr;
    long at = 0;
    bool stays = false;
    How how = How::none;
    int error = 0;
    uintptr_t program_begin = 0; // the address range of the program's own code
    uintptr_t program_end = 0;
};

Plan plan;
std::atomic<long> calls{0};

int find_program(dl_phdr_info* info, size_t, void*) { // the program is listed first
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& part = info->dlpi_phdr[i];
        if (part.p_type != PT_LOAD) continue;
        const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
        plan.program_begin = plan.program_begin == 0 ? begin : std::min<uintptr_t>(plan.program_begin, begin);
        plan.program_end = std::max<uintptr_t>(plan.program_end, begin + part.p_memsz);
    }
    return 1;
}

How how_named(const char* name) {
    if (std::strcmp(name, "short") == 0) return How::part;
    if (std::strcmp(name, "none") == 0) return How::nothing;
    return std::strcmp(name, "wait") == 0 ? How::wait : How::error;
}

void read_plan() {
    ::dl_iterate_phdr(find_program, nullptr);
    plan.log = std::getenv("FAULT_LOG");
    const char* how = std::getenv("FAULT_HOW");
    if (how == nullptr) return;
    plan.how = how_named(how);
    plan.error = static_cast<int>(std::strtol(how, nullptr, 10)); // 0 for a word
    plan.at = setting("FAULT_AT");
    plan.stays = setting("FAULT_STAYS") == 1;
    plan.fired = std::getenv("FAULT_FIRED");
    plan.call = std::getenv("FAULT_CALL");
}

// The file that a call acts on; for rename() the file that gets a new name.
class FileOfCall {
public:
    FileOfCall() = default; // none
    explicit FileOfCall(const char* path) : path_(path) {}
    explicit FileOfCall(int fd) : fd_(fd) {}

    // Writes the file's name, as much as fits. Uses bare system calls, as all code here whose calls must not count.
    size_t name(char* to, size_t room) const {
        if (path_ != nullptr) {
            const size_t size = std::min(room, std::strlen(path_));
            std::memcpy(to, path_, size);
            return size;
        }
        if (fd_ < 0) return 0;
        char link[32];
        std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd_);
        return static_cast<size_t>(std::max(0L, ::syscall(SYS_readlinkat, AT_FDCWD, link, to, room)));
    }

    bool is_in_proc() const {
        char start[PATH_MAX];
        return std::string_view(start, name(start, sizeof start)).substr(0, 6) == "/proc/";
    }

private:
    const char* path_ = nullptr;
    int fd_ = -1;
};

// Writes in one piece, because other threads write lines too.
void write_file(const char* path, int flags, const char* text, size_t size) {
    const long fd = ::syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
    if (fd < 0) return;
    ::syscall(SYS_write, fd, text, size);
    ::syscall(SYS_close, fd);
}

void leave_sign(const FileOfCall& file) {
    if (plan.fired == nullptr) return;
    char name[PATH_MAX];
    write_file(plan.fired, O_TRUNC, name, file.name(name, sizeof name));
}

void wait_until_sign_is_gone() {
    const timespec pause = {0, 1000000};
    while (plan.fired != nullptr && ::syscall(SYS_faccessat, AT_FDCWD, plan.fired, F_OK) == 0)
        ::syscall(SYS_nanosleep, &pause, nullptr);
}

void add_to_log(const char* call, const FileOfCall& file) {
    if (plan.log == nullptr) return;
    char line[PATH_MAX + 64];
    auto size = static_cast<size_t>(std::snprintf(line, sizeof line, "%.32s ", call));
    size += file.name(line + size, PATH_MAX);
    line[size++] = '\n';
    write_file(plan.log, O_APPEND, line, size);
}

// Decides what this call does.
How due(const char* call, const FileOfCall& file = {}) {
    if (plan.call == nullptr || std::strcmp(call, plan.call) != 0) return How::none;
    const long number = ++calls;
    if (plan.stays ? number < plan.at : number != plan.at) return How::none;
    if (number == plan.at) leave_sign(file);
    if (plan.how == How::wait) wait_until_sign_is_gone();
    errno = plan.error;
    return plan.how;
}

bool is_program(const void* caller) {
    const auto address = reinterpret_cast<uintptr_t>(caller);
    return address >= plan.program_begin && address < plan.program_end;
}

// The same for calls that libraries make too. A statically linked library is part of the program. The C++ library is
// one on some machines, and only it reads /proc for the program.
How due_in_program(const char* call, const void* caller, const FileOfCall& file = {}) {
    if (!is_program(caller) || file.is_in_proc()) return How::none;
    add_to_log(call, file);
    return due(call, file);
}

// Handles a call that moves bytes: `work(size)` is the call.
template <class Work>
ssize_t move_badly(How how, size_t size, const Work& work) {
    switch (how) {
    case How::error: return -1;
    case How::nothing: return 0;
    case How::part: return work(std::max<size_t>(size / 2, std::min<size_t>(size, 1)));
    case How::none:
    case How::wait: break;
    }
    return work(size);
}

// Reads as from a pipe that is always full.
ssize_t read_fully(int fd, void* to, size_t size) {
    static auto* real = next<ssize_t(int, void*, size_t)>("read");
    size_t done = 0;
    ssize_t got = 1;
    while (done < size && got > 0) {
        got = real(fd, static_cast<char*>(to) + done, size - done);
        done += static_cast<size_t>(std::max<ssize_t>(got, 0));
    }
    return done > 0 ? static_cast<ssize_t>(done) : got;
}

// Faults only occur during main(): calls before and after it belong to libraries.
int (*real_main)(int, char**, char**) = nullptr;
int faulty_main(int argc, char** argv, char** environment) {
    read_plan();
    const int code = real_main(argc, argv, environment);
    plan.call = nullptr;
    return code;
}

} // namespace

#define CALLER __builtin_return_address(0)

extern "C" {

// NOLINTNEXTLINE(bugprone-reserved-identifier): this replaces the C library's function
int __libc_start_main(int (*program)(int, char**, char**), int argc, char** argv, void (*init)(), void (*fini)(),
                      void (*loader_fini)(), void* stack_end) {
    using Start = int(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
    real_main = program;
    return next<Start>("__libc_start_main")(faulty_main, argc, argv, init, fini, loader_fini, stack_end);
}

ssize_t pread(int fd, void* to, size_t size, off_t offset) {
    static auto* real = next<ssize_t(int, void*, size_t, off_t)>("pread64");
    return move_badly(due_in_program("pread", CALLER, FileOfCall(fd)), size,
                      [&](size_t part) { return real(fd, to, part, offset); });
}
ssize_t pwrite(int fd, const void* from, size_t size, off_t offset) {
    static auto* real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite64");
    return move_badly(due_in_program("pwrite", CALLER, FileOfCall(fd)), size,
                      [&](size_t part) { return real(fd, from, part, offset); });
}
ssize_t read(int fd, void* to, size_t size) {
    static auto* real = next<ssize_t(int, void*, size_t)>("read");
    const bool counts = plan.call != nullptr && is_program(CALLER);
    return move_badly(due_in_program("read", CALLER, FileOfCall(fd)), size,
                      [&](size_t part) { return counts ? read_fully(fd, to, part) : real(fd, to, part); });
}
ssize_t write(int fd, const void* from, size_t size) {
    static auto* real = next<ssize_t(int, const void*, size_t)>("write");
    return move_badly(due_in_program("write", CALLER, FileOfCall(fd)), size,
                      [&](size_t part) { return real(fd, from, part); });
}

int open(const char* path, int flags, ...) {
    static auto* real = next<int(const char*, int, mode_t)>("open");
    va_list more;
    va_start(more, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
    va_end(more);
    return due_in_program("open", CALLER, FileOfCall(path)) == How::error ? -1 : real(path, flags, mode);
}
int close(int fd) { // a failing close() still closes, as on Linux
    static auto* real = next<int(int)>("close");
    const bool fails = due_in_program("close", CALLER, FileOfCall(fd)) == How::error;
    const int error = errno;
    const int closed = real(fd);
    return fails ? fail(error) : closed;
}
// A call that can only fail, when it is due. `file`: what the call acts on.
#define CAN_FAIL(Result, name, parameters, file, ...)                                                                  \
    Result name parameters {                                                                                           \
        static auto* real = next<Result parameters>(#name);                                                            \
        return due_in_program(#name, CALLER, file) == How::error ? (Result)-1 : real(__VA_ARGS__);                     \
    }
CAN_FAIL(int, fallocate, (int fd, int mode, off_t offset, off_t size), FileOfCall(fd), fd, mode, offset, size)
CAN_FAIL(int, fsync, (int fd), FileOfCall(fd), fd)
CAN_FAIL(int, rename, (const char* from, const char* to), FileOfCall(from), from, to)
CAN_FAIL(int, stat, (const char* path, struct stat* status), FileOfCall(path), path, status)
CAN_FAIL(int, fstat, (int fd, struct stat* status), FileOfCall(fd), fd, status)
CAN_FAIL(int, fchmod, (int fd, mode_t mode), FileOfCall(fd), fd, mode)
CAN_FAIL(off_t, lseek, (int fd, off_t offset, int whence), FileOfCall(fd), fd, offset, whence)
CAN_FAIL(int, poll, (pollfd * waited, nfds_t count, int milliseconds), {}, waited, count, milliseconds)
CAN_FAIL(void*, mmap, (void* at, size_t size, int protection, int flags, int fd, off_t offset), {}, at, size,
         protection, flags, fd, offset)
CAN_FAIL(int, sched_getaffinity, (pid_t process, size_t size, cpu_set_t* allowed), {}, process, size, allowed)

int fcntl(int fd, int command, ...) {
    static auto* real = next<int(int, int, ...)>("fcntl");
    va_list more;
    va_start(more, command);
    void* argument = va_arg(more, void*); // if there is one
    va_end(more);
    return due_in_program("fcntl", CALLER, FileOfCall(fd)) == How::error ? -1 : real(fd, command, argument);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
    static auto* real = next<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
    return due("pthread_create") == How::error ? plan.error : real(thread, attributes, body, argument);
}

void* malloc(size_t size) { return due("malloc") == How::error ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return due("malloc") == How::error ? nullptr : __libc_calloc(count, size); }
void* realloc(void* old, size_t size) { return due("malloc") == How::error ? nullptr : __libc_realloc(old, size); }
void* aligned_alloc(size_t alignment, size_t size) {
    return due("malloc") == How::error ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, size_t alignment, size_t size) {
    *memory = aligned_alloc(alignment, size);
    return *memory == nullptr ? ENOMEM : 0;
}

// The same functions under the names that some headers choose.
ssize_t pread64(int, void*, size_t, off64_t) __attribute__((alias("pread")));
ssize_t pwrite64(int, const void*, size_t, off64_t) __attribute__((alias("pwrite")));
int fallocate64(int, int, off64_t, off64_t) __attribute__((alias("fallocate")));
int fcntl64(int, int, ...) __attribute__((alias("fcntl")));
off64_t lseek64(int, off64_t, int) __attribute__((alias("lseek")));
int open64(const char*, int, ...) __attribute__((alias("open")));
void* mmap64(void*, size_t, int, int, int, off64_t) __attribute__((alias("mmap")));
}
