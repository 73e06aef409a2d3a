// The command lines of hw4 bench.
#pragma once

#include <string>
#include <vector>

#include "src/bench/accumulate.h"
#include "src/bench/gradients.h"
#include "src/bench/memory_timeline.h"
#include "src/bench/sweep.h"
#include "src/commands/options.h"

namespace hw4::bench {

struct Request {
    Action action = Action::run;
    Device device = Device::automatic;
    Sweep sweep;
    std::string output;   // JSON; a file's name, or - for standard output; empty: none
    std::string csv;      // likewise
    std::string markdown; // likewise
    std::string memory;   // memory over time; a file's name; empty: none
    MemoryPicture::Form memory_form = MemoryPicture::Form::pickle;
    bool resume = false;
    bool separate = false; // each cell in a process of its own
    bool quiet = false;
    bool machine = false; // say what would be measured on, and measure nothing
};

// argv[0] is not looked at. Throws Error (usage).
Request parse_request(int argc, char** argv);

// The options, without the program's name, that ask for this cell alone.
std::vector<std::string> options_for(const Cell& cell);

struct CompareRequest {
    Action action = Action::run;
    std::string before, after; // names of files
    double threshold = 0.03;   // share of the time
};
CompareRequest parse_compare(int argc, char** argv);

struct AccumulateRequest {
    Action action = Action::run;
    Addends addends;
    Device device = Device::automatic;
    std::string output; // JSON; empty: none
};
AccumulateRequest parse_accumulate(int argc, char** argv);

// What several ranks measure together.
struct CollectiveRequest {
    Action action = Action::run;
    Device device = Device::automatic;
    std::vector<Via> vias = {Via::mpi};
    int contributions = 8;
    CollectiveRules rules;
    std::string output; // JSON; a file's name, or - for standard output; empty: none
    std::string csv;    // likewise
    bool quiet = false;
};

struct AllreduceRequest : CollectiveRequest {
    std::vector<int64_t> sizes; // bytes
};
AllreduceRequest parse_allreduce(int argc, char** argv);

struct GradientsRequest : CollectiveRequest {
    std::vector<const Model*> models;
    std::vector<SyncWay::Kind> ways = {SyncWay::Kind::naive, SyncWay::Kind::flat, SyncWay::Kind::overlapped};
    std::vector<int64_t> buckets; // bytes
    int64_t batch_size = 8;
    int64_t seq_len = 512;
    int threads = 0;
};
GradientsRequest parse_gradients(int argc, char** argv);

std::string help_text();

} // namespace hw4::bench
