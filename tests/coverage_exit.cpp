// Linked into the programs of `make coverage`, so that all counts reach their files: those of what ends by _exit() too,
// as after a signal, and those of what a test has run under a limit.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>

extern "C" void __gcov_dump(); // NOLINT(bugprone-reserved-identifier): its name in the compiler's library

namespace {

// The counts are written after this. A file that is half written is lost for all later runs too.
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
