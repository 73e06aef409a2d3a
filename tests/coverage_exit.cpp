// Linked into the programs of `make coverage`, so that all counts reach their files, also when a process ends by
// _exit(), as after a signal, or runs under a limit that a test has set.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>

extern "C" void __gcov_dump(); // NOLINT(bugprone-reserved-identifier): its name in the compiler's library

namespace {

// gcov writes the counts after this function. A half-written file is lost for all later runs too.
[[gnu::destructor]] void lift_limits() {
    for (const auto kind : {RLIMIT_FSIZE, RLIMIT_NOFILE}) {
        rlimit limit{};
        ::getrlimit(kind, &limit);
        limit.rlim_cur = limit.rlim_max;
        ::setrlimit(kind, &limit);
    }
}

} // namespace

extern "C" void _exit(int status) {
    lift_limits();
    ::__gcov_dump();
    for (;;) ::syscall(SYS_exit_group, status);
}
