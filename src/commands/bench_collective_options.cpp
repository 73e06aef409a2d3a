#include "src/commands/bench_collective_options.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "src/base/standard_streams.h"
#include "src/bench/cell.h"
#include "src/commands/bench_values.h"

namespace hw4::bench {
namespace {

enum Option : int {
    kSizes = kFirstOwn,
    kVia,
    kContributions,
    kDevice,
    kWarmup,
    kRepeats,
    kLimit,
    kOutput,
    kCsv,
    kQuiet,
    kModel,
    kWays,
    kBuckets,
    kBatchSize,
    kSeqLen,
    kThreads,
};

// Of every measurement of several ranks.
constexpr option kRanksOptions[] = {
    {"via", required_argument, nullptr, kVia},         {"contributions", required_argument, nullptr, kContributions},
    {"device", required_argument, nullptr, kDevice},   {"warmup", required_argument, nullptr, kWarmup},
    {"repeats", required_argument, nullptr, kRepeats}, {"limit", required_argument, nullptr, kLimit},
    {"output", required_argument, nullptr, kOutput},   {"csv", required_argument, nullptr, kCsv},
    {"quiet", no_argument, nullptr, kQuiet},           {"help", no_argument, nullptr, kHelp},
    {"version", no_argument, nullptr, kVersionOption}, {nullptr, 0, nullptr, 0}};

// Its own, and then those.
template <size_t kOwn>
constexpr auto with_ranks_options(const option (&own)[kOwn]) {
    std::array<option, kOwn + std::size(kRanksOptions)> all{};
    size_t count = 0;
    for (const option& each : own) all[count++] = each;
    for (const option& each : kRanksOptions) all[count++] = each;
    return all;
}

constexpr auto kAllreduceOptions = with_ranks_options({{"sizes", required_argument, nullptr, kSizes}});

constexpr auto kGradientsOptions = with_ranks_options({{"model", required_argument, nullptr, kModel},
                                                       {"ways", required_argument, nullptr, kWays},
                                                       {"buckets", required_argument, nullptr, kBuckets},
                                                       {"batch_size", required_argument, nullptr, kBatchSize},
                                                       {"batch-size", required_argument, nullptr, kBatchSize},
                                                       {"seq_len", required_argument, nullptr, kSeqLen},
                                                       {"seq-len", required_argument, nullptr, kSeqLen},
                                                       {"threads", required_argument, nullptr, kThreads}});

// Of vectors and buckets.
std::vector<int64_t> parse_byte_sizes(const char* option, const std::string& text) {
    constexpr int64_t kMostBytes = int64_t{1} << 36;
    return parse_numbers(option, text, sizeof(float), kMostBytes);
}

std::vector<const Model*> parse_models(const std::string& text) {
    std::vector<const Model*> found;
    for (const std::string& word : split_at_commas(text)) {
        const auto is_it = [&](const Model& model) { return word == model.name; };
        const auto model = std::find_if(models().begin(), models().end(), is_it);
        if (model == models().end()) {
            std::vector<std::string> names;
            for (const Model& known : models()) names.emplace_back(known.name);
            refuse_name("model", text, word, "some of ", names);
        }
        found.push_back(&*model);
    }
    return found;
}

// False: not one of those that all measurements of several ranks have.
bool take_for_ranks(int code, const char* value, CollectiveRequest& request) {
    constexpr int kMostContributions = 1024;
    switch (code) {
    case kVia: request.vias = parse_named("via", value, kEveryVia); return true;
    case kContributions: request.contributions = parse_count("contributions", value, kMostContributions); return true;
    case kDevice: request.device = parse_device(value); return true;
    case kWarmup: {
        const std::vector<int> warmups = parse_warmups(value);
        if (warmups.size() > 1) refuse_value("warmup", value, "one number");
        request.rules.warmup = warmups.front();
        return true;
    }
    case kRepeats: request.rules.repeats = parse_count("repeats", value, kMostRepeats); return true;
    case kLimit: request.rules.limit_s = parse_seconds(value); return true;
    case kOutput: request.output = parse_json_name(value); return true;
    case kCsv: request.csv = parse_name("csv", value); return true;
    case kQuiet: request.quiet = true; return true;
    default: return false;
    }
}

// take(code, value) is false for options that are not the measurement's own.
template <class Take>
void parse_for_ranks(int argc, char** argv, const option* options, CollectiveRequest& request, const Take& take) {
    request.action = take_options(argc, argv, options, [&](int code, const char* value) {
        return take(code, value) || take_for_ranks(code, value, request);
    });
    if (request.action != Action::run) return;
    if (optind < argc) usage_error("'" + std::string(argv[optind]) + "': need options alone");
    if (is_standard_stream(request.output) && is_standard_stream(request.csv))
        usage_error("only one of --output and --csv can be '-', standard output");
}

} // namespace

AllreduceRequest parse_allreduce(int argc, char** argv) {
    AllreduceRequest request;
    request.sizes = parse_byte_sizes("sizes", "1m..1g*10");
    parse_for_ranks(argc, argv, kAllreduceOptions.data(), request, [&](int code, const char* value) {
        if (code == kSizes) request.sizes = parse_byte_sizes("sizes", value);
        return code == kSizes;
    });
    return request;
}

GradientsRequest parse_gradients(int argc, char** argv) {
    GradientsRequest request;
    request.models = {&models().front()};
    request.buckets = parse_byte_sizes("buckets", "1m..1g*10");
    constexpr SyncWay::Kind kWaysToAsk[] = {SyncWay::Kind::naive, SyncWay::Kind::flat, SyncWay::Kind::overlapped};
    parse_for_ranks(argc, argv, kGradientsOptions.data(), request, [&](int code, const char* value) {
        switch (code) {
        case kModel: request.models = parse_models(value); return true;
        case kWays: request.ways = parse_named("ways", value, kWaysToAsk); return true;
        case kBuckets: request.buckets = parse_byte_sizes("buckets", value); return true;
        case kBatchSize: request.batch_size = parse_count("batch_size", value, 1 << 20); return true;
        case kSeqLen: request.seq_len = parse_count("seq_len", value, 1 << 20); return true;
        case kThreads: request.threads = parse_count("threads", value, kMostThreads); return true;
        default: return false;
        }
    });
    return request;
}

} // namespace hw4::bench
