// The commands that make run omits: they take as long to compile as the rest of the host code.
#include <string>

#include "src/base/error.h"
#include "src/commands/run.h"
#include "src/ranks/agree.h"
#include "src/step/training.h"

namespace hw4 {
namespace {
[[noreturn]] void fail(const char* command) {
    throw Error(ExitCode::usage,
                std::string("make run builds this program without '") + command + "'; make builds the complete one");
}
} // namespace

ExitCode run_bench(int, char**, Ranks& ranks) {
    agree(ranks, [] { fail("bench"); });
    return ExitCode::internal;
}

ExitCode run_train(int, char**, Ranks& ranks) {
    agree(ranks, [] { fail("train"); });
    return ExitCode::internal;
}

void step::train_by_reference(int, char**, const std::string&) { fail("train"); }

} // namespace hw4
