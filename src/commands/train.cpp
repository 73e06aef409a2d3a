// hw4 train: the options that name a device, and the machine that computes on it.
#include <cstdio>

#include "src/base/error.h"
#include "src/base/numbers.h"
#include "src/base/parallel.h"
#include "src/base/standard_streams.h"
#include "src/commands/run.h"
#include "src/gpu/device/connections.h"
#include "src/ranks/agree.h"
#include "src/step/cpu.h"
#include "src/step/gpu/machine.h"
#include "src/step/training.h"

namespace hw4 {
namespace {

constexpr const char* kMore =
    "  --device auto|gpu|cpu   where to compute, to the same bytes: auto, the default, takes the CPU; gpu needs a GPU\n"
    "                          of compute capability 8.0 or later, and ends with 69 where there is none\n"
    "  --threads N             CPU threads, 1 to 1024, default: all processors\n";

int parse_threads(const std::string& text) {
    const auto threads = whole_number(text, 1, 1024);
    if (!threads) usage_error("--threads '" + text + "': need a whole number from 1 to 1024");
    return static_cast<int>(*threads);
}

void parse_device(const std::string& name, bool& gpu) {
    if (name != "auto" && name != "gpu" && name != "cpu") usage_error("--device '" + name + "': need auto, gpu or cpu");
    gpu = name == "gpu";
}

void train(int argc, char** argv) {
    int threads = available_processors();
    bool gpu = false;
    const step::TrainingRequest request = step::parse_training(
        argc, argv,
        {{"device", required_argument, [&](const char* value) { parse_device(value, gpu); }},
         {"threads", required_argument, [&](const char* value) { threads = parse_threads(value); }}});
    if (request.action != Action::run) {
        std::fputs(request.action == Action::help ? step::training_help("hw4", kMore).c_str() : version_line().c_str(),
                   stdout);
        return;
    }
    if (gpu) gpu::ask_for_few_connections();
    step::run_training(request, "hw4", threads, [&] { return gpu ? step::make_gpu() : step::make_cpu(threads); });
}

} // namespace

ExitCode run_train(int argc, char** argv, Ranks& ranks) {
    agree(ranks, [&] {
        if (!ranks.why_no_case().empty()) throw Error(ExitCode::usage, ranks.why_no_case());
        if (ranks.count() > 1) throw Error(ExitCode::usage, "train is for one process");
    });
    train(argc, argv);
    flush_standard_output();
    return ExitCode::ok;
}

} // namespace hw4
