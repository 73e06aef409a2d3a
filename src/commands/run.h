// hw4's commands: cases from file to file, hw4 bench, hw4 train, hw4 help, --list-kernels and --version.
#pragma once

#include <memory>
#include <string>

#include "src/base/error.h"
#include "src/base/interrupt.h"
#include "src/commands/options.h"
#include "src/io/output_file.h"
#include "src/io/run_files.h"
#include "src/ranks/ranks.h"

namespace hw4 {

// hw4 bench: measures attention over sizes and implementations. argv[0] is "bench". Called by all ranks, of which only
// some measurements use several. Throws Error.
ExitCode run_bench(int argc, char** argv, Ranks& ranks);

// hw4 train: trains a model from file to file. argv[0] is "train". Throws Error.
ExitCode run_train(int argc, char** argv, Ranks& ranks);

// hw4 help TOPIC. argv[0] is "help". Throws Error.
ExitCode run_help(int argc, char** argv, Ranks& ranks);

// hw4 --list-kernels, for users and, as JSON, for the judge, the scripts and the tests.
std::string list_text();
std::string list_json();

// "hw4 0.2.0, contracts f32.forward/1 fixed.forward/2 fixed16.forward/1 ..., CUDA 13.0 for sm_90"
std::string version_line();

// Runs one case, in one process or on several ranks, each of which calls this with the same options except for the
// GPU: each opens the input, reads, computes and writes its share, and the first one gives the output its name after
// all have agreed. Throws Error; AgreedError where there are several ranks.
void run_one(const Options& options, Ranks& ranks, InterruptGuard& interrupts);

// Runs one case on this machine's GPUs that --gpus names, a thread for each. `alone` is this process. Throws Error.
void run_on_cards(const Options& options, Ranks& alone, InterruptGuard& interrupts);

// Prints one line for each failed case and continues with the others. Returns the exit code of the first failed case.
// Throws Error for any error that is not a case's.
ExitCode run_many(const Options& options, InterruptGuard& interrupts);

// The report files beside the outputs, --json and --trace. Opened before the work, so that a bad name shows
// immediately.
class RunReports {
public:
    RunReports() = default; // none
    RunReports(const Options& options, RunFiles& files, InterruptGuard& interrupts);

    void finish(const std::string& json, const std::string& trace);
    void publish();

private:
    bool sync_ = false;
    std::unique_ptr<OutputFile> json_, trace_; // null: not asked for
};

// Prints a note about a shape that no case of the course can have; it is computed too.
void remark_unusual(const std::string& input, const Problem& problem);

} // namespace hw4
