#include "src/base/interrupt.h"

#include <utility>

#include "tests/support/temporary_folder.h"

namespace hw4 {
namespace {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

// Ends a child that should have ended by now with SIGALRM, so that the tests do not hang.
[[noreturn]] void wait_for_the_end() {
    ::alarm(5);
    for (;;) ::pause();
}

std::string blocked_signals() {
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, nullptr, &set);
    std::string text;
    for (int signal = 1; signal < NSIG; ++signal)
        if (sigismember(&set, signal) == 1) text += " " + std::to_string(signal);
    return text;
}

// The tests may run with these signals ignored (nohup).
void restore_defaults() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR2}) std::signal(signal, SIG_DFL);
}

class InterruptDeath : public ::testing::Test {
protected:
    void SetUp() override { restore_defaults(); }
    void TearDown() override { restore_defaults(); }

    bool make(const std::string& name) {
        write_file(folder_ / name, "text");
        return true;
    }
    void make_guarded(InterruptGuard& interrupts, const std::string& name) {
        interrupts.guard(folder_ / name, [&] { return make(name); });
    }

    bool there(const std::string& name) const { return std::filesystem::exists(folder_ / name); }

    TemporaryFolder folder_;
};

// A process that does the work under a guard and then sends itself the signal exits with this code.
template <class Work>
void expect_end(int code, Work work, int signal = SIGTERM) {
    EXPECT_EXIT(
        {
            InterruptGuard interrupts;
            work(interrupts);
            ::kill(::getpid(), signal);
            wait_for_the_end();
        },
        ExitedWithCode(code), "");
}

TEST_F(InterruptDeath, SignalRemovesEveryGuardedFileAndNoOther) {
    for (const auto& [signal, code] : {std::pair(SIGTERM, 143), std::pair(SIGINT, 130), std::pair(SIGHUP, 129)}) {
        const auto work = [&](InterruptGuard& interrupts) {
            for (const char* name : {"first", "second", "third"}) make_guarded(interrupts, name);
            interrupts.release(folder_ / "second", [] { return true; });
        };
        expect_end(code, work, signal);
        EXPECT_EQ(folder_.names(), std::vector<std::string>{"second"});
    }
}

TEST_F(InterruptDeath, SignalWhileTheFileIsMadeRemovesIt) {
    expect_end(143, [&](InterruptGuard& interrupts) {
        interrupts.guard(folder_ / "guarded", [&] {
            ::kill(::getpid(), SIGTERM);
            return make("guarded");
        });
        wait_for_the_end();
    });
    EXPECT_FALSE(there("guarded"));
}

TEST_F(InterruptDeath, ReleasedFileStays) {
    expect_end(143, [&](InterruptGuard& interrupts) {
        make_guarded(interrupts, "guarded");
        interrupts.release(folder_ / "guarded", [&] {
            ::kill(::getpid(), SIGTERM);
            std::filesystem::rename(folder_ / "guarded", folder_ / "final");
            return true;
        });
        make("guarded"); // no longer ours under that name
        wait_for_the_end();
    });
    EXPECT_TRUE(there("final"));
}

TEST_F(InterruptDeath, FileWhoseSettlingFailedIsStillGuarded) {
    expect_end(143, [&](InterruptGuard& interrupts) {
        make_guarded(interrupts, "guarded");
        interrupts.release(folder_ / "guarded", [] { return false; });
    });
    EXPECT_FALSE(there("guarded"));
}

TEST_F(InterruptDeath, FileThatWasNotMadeIsSomebodyElses) {
    make("taken");
    expect_end(143, [&](InterruptGuard& interrupts) { interrupts.guard(folder_ / "taken", [] { return false; }); });
    EXPECT_TRUE(there("taken"));
}

TEST_F(InterruptDeath, AfterItsEndSignalsActAsBefore) {
    EXPECT_EXIT(
        {
            {
                InterruptGuard interrupts;
                make_guarded(interrupts, "guarded");
                interrupts.release(folder_ / "guarded", [] { return true; });
            }
            ::kill(::getpid(), SIGTERM);
            wait_for_the_end();
        },
        KilledBySignal(SIGTERM), "");
    EXPECT_TRUE(there("guarded"));
}

// nohup, and a shell's background jobs, start programs with signals ignored.
TEST_F(InterruptDeath, IgnoredSignalsStayIgnored) {
    for (const int signal : {SIGHUP, SIGINT}) {
        std::signal(signal, SIG_IGN);
        expect_end(143, [&](InterruptGuard& interrupts) {
            make_guarded(interrupts, "guarded");
            ::kill(::getpid(), signal); // would be delivered first
        });
    }
}

TEST_F(InterruptDeath, SignalsOfOthersDoNotDisarmIt) {
    std::signal(SIGUSR2, SIG_IGN);
    expect_end(143, [&](InterruptGuard& interrupts) {
        make_guarded(interrupts, "guarded");
        ::kill(::getpid(), SIGUSR2);
    });
    EXPECT_FALSE(there("guarded"));
}

TEST(Interrupt, RestoresTheMask) {
    restore_defaults();
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGINT); // a signal that was blocked before must stay blocked
    pthread_sigmask(SIG_BLOCK, &one, nullptr);
    const std::string before = blocked_signals();
    std::string during;
    {
        const InterruptGuard interrupts;
        during = blocked_signals();
    }
    const std::string after = blocked_signals();
    pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
    EXPECT_EQ(after, before);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
        EXPECT_NE((during + " ").find(" " + std::to_string(signal) + " "), std::string::npos) << signal;
}

} // namespace
} // namespace hw4
