// hw4: attention from file to file. What it does is in src/commands.
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "src/base/error.h"
#include "src/base/standard_output.h"
#include "src/base/standard_streams.h"
#include "src/commands/bench.h"
#include "src/commands/engine_choice.h"
#include "src/commands/list.h"
#include "src/commands/options.h"
#include "src/commands/run.h"
#include "src/commands/version_line.h"

namespace hw4 {
namespace {

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

ExitCode act(Options options) {
    ExitCode code = ExitCode::ok;
    switch (options.action) {
    case Action::help: print(help_text()); break;
    case Action::version: print(version_line()); break;
    case Action::list_kernels: print(options.list_as_json ? list_json(inventory()) : list_text(inventory())); break;
    case Action::run:
        load_kernel_file(options);
        if (options.many())
            code = run_many(options);
        else
            run_one(options);
        break;
    }
    flush_standard_output();
    return code;
}

int fail(ExitCode code, const char* message) {
    std::fflush(stdout);
    std::fprintf(stderr, "hw4: %s\n", message);
    return static_cast<int>(code);
}

} // namespace
} // namespace hw4

int main(int argc, char** argv) {
    hw4::occupy_closed_streams();
    try {
        const bool is_bench = argc > 1 && argv[1] == std::string("bench");
        return static_cast<int>(is_bench ? hw4::run_bench(argc - 1, argv + 1)
                                         : hw4::act(hw4::parse_options(argc, argv)));
    } catch (const hw4::Error& error) {
        return hw4::fail(error.code(), error.what());
    } catch (const std::bad_alloc&) {
        return hw4::fail(hw4::ExitCode::out_of_memory, "out of host memory");
    } catch (const std::exception& error) {
        return hw4::fail(hw4::ExitCode::internal, error.what());
    }
}
