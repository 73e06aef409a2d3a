// hw4 train: the options that name a device, and the machine for that device.
#include <cstdio>

#include "src/base/error.h"
#include "src/base/parallel.h"
#include "src/base/standard_streams.h"
#include "src/commands/run.h"
#include "src/gpu/device/connections.h"
#include "src/ranks/agree.h"
#include "src/step/machine.h"
#include "src/step/training.h"

namespace hw4 {
namespace {

constexpr const char* kMore = R"(where:
  --device auto|gpu|cpu  auto, the default, takes the CPU; gpu takes GPUs of compute
    capability 8.0 or later, which ranks may share, and ends with 69 where there is none
  --threads N  CPU threads, 1 to 1024; default: all processors, which ranks divide among them
  --shard  each of several ranks (mpirun -np N hw4 train ...) keeps only its share of m and v, in less memory (ZeRO-1).
    The bytes stay the same, with any number of ranks
)";

struct Request : step::TrainingRequest {
    int threads = 0; // 0: all
    bool gpu = false;
};

Request parse(int argc, char** argv) {
    Request request;
    bool shard = false;
    static_cast<step::TrainingRequest&>(request) = step::parse_training(
        argc, argv,
        {{"device", required_argument, [&](const char* value) { request.gpu = parse_device(value) == Device::gpu; }},
         {"threads", required_argument,
          [&](const char* value) { request.threads = parse_count("threads", value, 1024); }},
         flag("shard", shard)});
    request.shard = shard;
    return request;
}

} // namespace

ExitCode run_train(int argc, char** argv, Ranks& ranks) {
    Request request;
    agree(ranks, [&] {
        if (!ranks.why_no_case().empty()) throw Error(ExitCode::usage, ranks.why_no_case());
        request = parse(argc, argv);
    });
    if (request.action == Action::run) {
        const int share = share_of_processors(ranks, available_processors(), allowed_processors());
        const int threads = request.threads > 0 ? request.threads : share;
        if (request.gpu) gpu::ask_for_few_connections();
        step::run_training(request, "hw4", threads, ranks, [&](const Contract& contract) {
            return request.gpu ? step::make_gpu(ranks.node_rank(), contract) : step::make_cpu(threads, contract);
        });
    } else if (ranks.is_first()) {
        std::fputs(request.action == Action::help ? step::training_help("hw4", kMore).c_str() : version_line().c_str(),
                   stdout);
    }
    agree(ranks, flush_standard_output);
    return ExitCode::ok;
}

} // namespace hw4
