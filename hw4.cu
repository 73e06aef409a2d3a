// hw4: attention from file to file. The commands are in src/commands.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "src/base/command_line.h"
#include "src/base/standard_streams.h"
#include "src/commands/engine_choice.h"
#include "src/commands/run.h"
#include "src/gpu/device/connections.h"
#include "src/ranks/agree.h"
#include "src/ranks/parcel.h"

namespace hw4 {
namespace {

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

// Refuses invalid runs, and prepares what must exist before the first case. Only the first of several ranks prints.
void prepare(Options& options, Ranks& ranks, std::optional<InterruptGuard>& interrupts) {
    const bool several = ranks.count() > 1;
    if (!ranks.why_no_case().empty()) throw Error(ExitCode::usage, ranks.why_no_case());
    if (several && options.many()) throw Error(ExitCode::usage, "several ranks take one case: INPUT OUTPUT");
    if (several && options.gpus)
        throw Error(ExitCode::usage, "--gpus is for one process: of several ranks each has its GPU");
    if (several) options.engine.card = ranks.node_rank();
    load_kernel_file(options);
    if (options.device != Device::cpu) gpu::ask_for_few_connections();
    interrupts.emplace(ranks.is_first() ? "hw4" : nullptr);
}

ExitCode run_cases(Options& options, Ranks& ranks) {
    std::optional<InterruptGuard> interrupts;
    agree(ranks, [&] { prepare(options, ranks, interrupts); });
    if (options.many()) return run_many(options, *interrupts);
    if (options.gpus)
        run_on_cards(options, ranks, *interrupts);
    else
        run_one(options, ranks, *interrupts);
    return ExitCode::ok;
}

ExitCode act(Options options, Ranks& ranks) {
    ExitCode code = ExitCode::ok;
    if (options.action == Action::run)
        code = run_cases(options, ranks);
    else if (ranks.is_first())
        print(options.action == Action::help      ? help_text()
              : options.action == Action::version ? version_line()
              : options.list_as_json              ? list_json()
                                                  : list_text());
    agree(ranks, flush_standard_output);
    return code;
}

// Refuses a first word that looks like a misspelt command where no file has that name.
void refuse_misspelt_command(const std::string& word) {
    const std::string meant = did_you_mean(word, {"bench", "train", "help"});
    if (!meant.empty() && ::access(word.c_str(), F_OK) != 0 && errno == ENOENT)
        throw Error(ExitCode::usage, "'" + word + "' is neither a command nor a file" + meant + "; see --help");
}

Options agreed_options(int argc, char** argv, Ranks& ranks) {
    Options options;
    agree(ranks, [&] {
        if (argc > 1 && argv[1][0] != '-') refuse_misspelt_command(argv[1]);
        options = parse_options(argc, argv);
    });
    return options;
}

// mpirun -np 1 hw4 a.in a.out : -np 1 hw4 b.in b.out also starts ranks, with different arguments.
void refuse_other_arguments(int argc, char** argv, Ranks& ranks) {
    Parcel mine;
    std::string text;
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        mine.put(argument);
        text += " " + argument;
    }
    const std::vector<std::string> all = ranks.exchange(mine.bytes());
    agree(ranks, [&] {
        if (mine.bytes() != all.front())
            throw Error(ExitCode::usage, "started as 'hw4" + text + "', need the arguments of the first rank");
    });
}

int fail(ExitCode code, const char* message) {
    std::fflush(stdout);
    std::fprintf(stderr, "hw4: %s\n", message);
    return static_cast<int>(code);
}

// Fails on this rank alone, where the other ranks, which wait for it, do not know of the failure.
int fail_alone(Ranks& ranks, ExitCode code, const char* message) {
    fail(code, message);
    if (ranks.count() > 1) ranks.abort(code);
    return static_cast<int>(code);
}

ExitCode run_command(int argc, char** argv, Ranks& ranks) {
    const std::string command = argc > 1 ? argv[1] : "", topic = argc > 2 ? argv[2] : "";
    if (command == "bench") return run_bench(argc - 1, argv + 1, ranks);
    if (command == "train") return within_command("hw4 train", [&] { return run_train(argc - 1, argv + 1, ranks); });
    if (command != "help") return act(agreed_options(argc, argv, ranks), ranks);
    if (topic != "bench" && topic != "train") return run_help(argc - 1, argv + 1, ranks);
    std::vector<char*> words(argv + 1, argv + argc + 1); // hw4 help bench step: hw4 bench step --help
    std::string help = "--help";
    words.insert(words.end() - 1, help.data());
    return run_command(argc, words.data(), ranks);
}

int run_as(Ranks& ranks, int argc, char** argv) {
    try {
        refuse_other_arguments(argc, argv, ranks);
        return static_cast<int>(run_command(argc, argv, ranks));
    } catch (const AgreedError& error) {
        return ranks.is_first() ? fail(error.code(), error.what()) : static_cast<int>(error.code());
    } catch (const Error& error) {
        return fail_alone(ranks, error.code(), error.what());
    } catch (const std::bad_alloc&) {
        return fail_alone(ranks, ExitCode::out_of_memory, "out of host memory");
    } catch (const std::exception& error) {
        return fail_alone(ranks, ExitCode::internal, error.what());
    }
}

} // namespace
} // namespace hw4

int main(int argc, char** argv) {
    hw4::occupy_closed_streams();
    std::unique_ptr<hw4::Ranks> ranks;
    try {
        ranks = hw4::start_ranks();
    } catch (const hw4::Error& error) {
        return hw4::fail(error.code(), error.what());
    } catch (const std::bad_alloc&) {
        return hw4::fail(hw4::ExitCode::out_of_memory, "out of host memory");
    }
    return hw4::run_as(*ranks, argc, argv);
}
