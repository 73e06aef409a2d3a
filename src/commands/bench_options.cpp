#include "src/commands/bench_options.h"

#include <algorithm>
#include <limits>

#include "src/base/numbers.h"
#include "src/base/standard_streams.h"
#include "src/commands/bench_values.h"
#include "src/io/case_values.h"

namespace hw4::bench {
namespace {

enum Option : int {
    kBatchSize = kFirstOwn,
    kSeqLen,
    kNumHeads,
    kEmbDim,
    kImpl,
    kCausal,
    kRepeats,
    kOutput,
    kPreset,
    kShape,
    kKernel,
    kKernelFile,
    kDtype,
    kPassesOption,
    kKind,
    kDevice,
    kThreads,
    kWarmup,
    kLimit,
    kTiming,
    kCold,
    kOnce,
    kScratch,
    kMemoryLimit,
    kCsv,
    kMemory,
    kResume,
    kSeparate,
    kQuiet,
    kThreshold,
    kCount,
    kTerm,
};

constexpr option kOptions[] = {{"batch_size", required_argument, nullptr, kBatchSize},
                               {"batch-size", required_argument, nullptr, kBatchSize},
                               {"seq_len", required_argument, nullptr, kSeqLen},
                               {"seq-len", required_argument, nullptr, kSeqLen},
                               {"num_heads", required_argument, nullptr, kNumHeads},
                               {"num-heads", required_argument, nullptr, kNumHeads},
                               {"emb_dim", required_argument, nullptr, kEmbDim},
                               {"emb-dim", required_argument, nullptr, kEmbDim},
                               {"impl", required_argument, nullptr, kImpl},
                               {"causal", optional_argument, nullptr, kCausal},
                               {"repeats", required_argument, nullptr, kRepeats},
                               {"output", required_argument, nullptr, kOutput},
                               {"preset", required_argument, nullptr, kPreset},
                               {"shape", required_argument, nullptr, kShape},
                               {"kernel", required_argument, nullptr, kKernel},
                               {"kernel-file", required_argument, nullptr, kKernelFile},
                               {"dtype", required_argument, nullptr, kDtype},
                               {"passes", required_argument, nullptr, kPassesOption},
                               {"kind", required_argument, nullptr, kKind},
                               {"device", required_argument, nullptr, kDevice},
                               {"threads", required_argument, nullptr, kThreads},
                               {"warmup", required_argument, nullptr, kWarmup},
                               {"limit", required_argument, nullptr, kLimit},
                               {"timing", required_argument, nullptr, kTiming},
                               {"cold", no_argument, nullptr, kCold},
                               {"once", no_argument, nullptr, kOnce},
                               {"scratch", required_argument, nullptr, kScratch},
                               {"memory_limit", required_argument, nullptr, kMemoryLimit},
                               {"memory-limit", required_argument, nullptr, kMemoryLimit},
                               {"csv", required_argument, nullptr, kCsv},
                               {"memory", required_argument, nullptr, kMemory},
                               {"resume", no_argument, nullptr, kResume},
                               {"separate", no_argument, nullptr, kSeparate},
                               {"quiet", no_argument, nullptr, kQuiet},
                               {"help", no_argument, nullptr, kHelp},
                               {"version", no_argument, nullptr, kVersionOption},
                               {nullptr, 0, nullptr, 0}};

constexpr option kCompareOptions[] = {{"threshold", required_argument, nullptr, kThreshold},
                                      {"help", no_argument, nullptr, kHelp},
                                      {"version", no_argument, nullptr, kVersionOption},
                                      {nullptr, 0, nullptr, 0}};

constexpr option kNoOptions[] = {
    {"help", no_argument, nullptr, kHelp}, {"version", no_argument, nullptr, kVersionOption}, {nullptr, 0, nullptr, 0}};

constexpr option kAccumulateOptions[] = {{"count", required_argument, nullptr, kCount},
                                         {"term", required_argument, nullptr, kTerm},
                                         {"device", required_argument, nullptr, kDevice},
                                         {"output", required_argument, nullptr, kOutput},
                                         {"help", no_argument, nullptr, kHelp},
                                         {"version", no_argument, nullptr, kVersionOption},
                                         {nullptr, 0, nullptr, 0}};

std::vector<int64_t> parse_sizes(const char* option, const std::string& text) {
    return parse_numbers(option, text, 1, kMostSize);
}

std::vector<std::string> parse_impls(const std::string& text) {
    std::vector<std::string> impls;
    for (const std::string& word : split_at_commas(text)) {
        const std::string name = implementation_named(word);
        if (name.empty()) refuse_name("impl", text, word, "some of ", implementation_names());
        impls.push_back(name);
    }
    return impls;
}

std::vector<bool> parse_causal(const char* text) {
    const std::string word = text == nullptr ? "yes" : text;
    if (word == "yes") return {true};
    if (word == "no") return {false};
    if (word == "both") return {false, true};
    refuse_value("causal", word, "yes, no or both, after =");
}

const Preset* parse_preset(const std::string& name) {
    std::vector<std::string> names;
    for (const Preset& preset : presets()) {
        if (name == preset.name) return &preset;
        names.emplace_back(preset.name);
    }
    refuse_name("preset", name, name, "one of ", names);
}

std::vector<std::string> parse_kernels(const std::string& text) {
    std::vector<std::string> names = split_at_commas(text);
    for (const std::string& name : names) parse_name("kernel", name);
    return names;
}

Timing parse_timing(const std::string& name) {
    for (const Timing timing : {Timing::event, Timing::wall})
        if (name == name_of(timing)) return timing;
    refuse_value("timing", name, "event or wall");
}

// "3%" or "3": percent.
double parse_percent(const char* option, std::string text) {
    const std::string given = text;
    if (!text.empty() && text.back() == '%') text.pop_back();
    const auto percent = decimal_number(text, 0, 1000);
    if (!percent) refuse_value(option, given, "percent, from 0 to 1000");
    return *percent;
}

float parse_term(const std::string& text) {
    const auto term = decimal_number(text, -1e4, 1e4);
    if (!term) refuse_value("term", text, "a number from -1e4 to 1e4");
    return static_cast<float>(*term);
}

// "8G", "512m", "1000000"
int64_t parse_bytes(const char* option, const std::string& text, int64_t least) {
    const auto bytes = sized_number(text, least, std::numeric_limits<int64_t>::max());
    if (!bytes) refuse_value(option, text, "bytes, such as 8G, 512M or 1000000");
    return *bytes;
}

std::string parse_pickle_name(const std::string& name) {
    if (!ends_in(name, ".pickle")) refuse_value("memory", name, "a name that ends in .pickle");
    return name;
}

Shape parse_shape(const std::string& text) {
    const auto shape = shape_named(text);
    if (!shape) refuse_value("shape", text, "B,N,d or B,H,N,d, or a case of the course, t01 to t30");
    return *shape;
}

void set_passes(Cell& cell, const std::vector<Pass>& passes) {
    for (const Pass pass : kPasses)
        cell.passes[static_cast<size_t>(pass)] = std::find(passes.begin(), passes.end(), pass) != passes.end();
}

// False: not one of the sweep's.
bool take_for_sweep(int code, const char* value, Sweep& sweep) {
    switch (code) {
    case kBatchSize: sweep.batch_size = parse_sizes("batch_size", value); return true;
    case kSeqLen: sweep.seq_len = parse_sizes("seq_len", value); return true;
    case kNumHeads: sweep.num_heads = parse_sizes("num_heads", value); return true;
    case kEmbDim: sweep.emb_dim = parse_sizes("emb_dim", value); return true;
    case kImpl: sweep.impls = parse_impls(value); return true;
    case kCausal: sweep.causal = parse_causal(value); return true;
    case kRepeats: sweep.repeats = parse_count("repeats", value, kMostRepeats); return true;
    case kPreset: sweep.preset = parse_preset(value); return true;
    case kShape: sweep.shapes.push_back(parse_shape(value)); return true;
    case kKernel: sweep.kernels = parse_kernels(value); return true;
    case kDtype: sweep.elements = parse_named("dtype", value, kElements); return true;
    case kPassesOption: set_passes(sweep.common, parse_named("passes", value, kPasses)); return true;
    case kKind: sweep.common.kind = spelling_of(distribution_of(value)); return true;
    case kThreads: sweep.common.threads = parse_count("threads", value, kMostThreads); return true;
    case kWarmup: sweep.warmups = parse_warmups(value); return true;
    case kLimit: sweep.common.rules.limit_s = parse_seconds(value); return true;
    case kTiming: sweep.common.rules.timing = parse_timing(value); return true;
    case kCold: sweep.cold = true; return true;
    case kOnce:
        sweep.warmups = {0};
        sweep.repeats = 1;
        return true;
    case kMemoryLimit: sweep.common.memory_limit = parse_bytes("memory_limit", value, 1); return true;
    case kScratch: sweep.common.scratch = parse_bytes("scratch", value, 0); return true;
    default: return false;
    }
}

// False: not one of those that say where cells are measured and where rows go.
bool take_for_request(int code, const char* value, Request& request) {
    switch (code) {
    case kOutput: request.output = parse_json_name(value); return true;
    case kCsv: request.csv = parse_name("csv", value); return true;
    case kMemory: request.memory = parse_pickle_name(value); return true;
    case kKernelFile: request.kernel_file = parse_name("kernel-file", value); return true;
    case kDevice: request.device = parse_device(value); return true;
    case kResume: request.resume = true; return true;
    case kSeparate: request.separate = true; return true;
    case kQuiet: request.quiet = true; return true;
    default: return false;
    }
}

void refuse_contradictions(const Request& request) {
    const Sweep& sweep = request.sweep;
    if (is_standard_stream(request.output) && is_standard_stream(request.csv))
        usage_error("only one of --output and --csv can be '-', standard output");
    if (!sweep.shapes.empty() &&
        (sweep.preset != nullptr || sweep.batch_size || sweep.seq_len || sweep.num_heads || sweep.emb_dim))
        usage_error("--shape has all sizes: not with --preset, --batch_size, --seq_len, --num_heads or --emb_dim");
    if (!request.kernel_file.empty() && request.resume)
        usage_error("--kernel-file is not for --resume: a file of that name may have changed");
    if (request.resume && (request.output.empty() || is_standard_stream(request.output)))
        usage_error("--resume needs the --output file to go on with");
    if (!request.memory.empty() && (request.separate || request.resume))
        usage_error("--memory is of the cells that this process measures: not with --separate or --resume");
    if (request.separate && request.device == Device::automatic)
        usage_error("--separate needs --device gpu or cpu: to ask for a GPU would take memory of it");
    if (request.sweep.common.rules.timing == Timing::wall) {
        if (request.sweep.cold)
            usage_error("--cold flushes before each sample, and --timing wall has one: take one of the two");
        if (request.sweep.preset != nullptr && request.sweep.preset->cold)
            usage_error("--preset " + std::string(request.sweep.preset->name) +
                        " is --cold, which flushes before each sample, and --timing wall has one");
    }
}

} // namespace

Request parse_request(int argc, char** argv) {
    Request request;
    request.action = take_options(argc, argv, kOptions, [&](int code, const char* value) {
        return take_for_sweep(code, value, request.sweep) || take_for_request(code, value, request);
    });
    if (request.action != Action::run) return request;
    if (optind < argc)
        usage_error("'" + std::string(argv[optind]) +
                    "': need options alone, or one of compare, accumulate, start-up, allreduce and gradients" +
                    did_you_mean(argv[optind], {"compare", "accumulate", "start-up", "allreduce", "gradients"}));
    refuse_contradictions(request);
    return request;
}

CompareRequest parse_compare(int argc, char** argv) {
    CompareRequest request;
    request.action = take_options(argc, argv, kCompareOptions, [&](int code, const char* value) {
        if (code == kThreshold) request.threshold = parse_percent("threshold", value) / 100;
        return code == kThreshold;
    });
    if (request.action != Action::run) return request;
    if (argc - optind != 2)
        usage_error("compare needs OLD and NEW, got " + std::to_string(argc - optind) +
                    (argc - optind == 1 ? " name" : " names"));
    request.before = argv[optind];
    request.after = argv[optind + 1];
    return request;
}

AccumulateRequest parse_accumulate(int argc, char** argv) {
    AccumulateRequest request;
    request.action = take_options(argc, argv, kAccumulateOptions, [&](int code, const char* value) {
        switch (code) {
        case kCount: request.addends.count = parse_count("count", value, kMostRepeats); return true;
        case kTerm: request.addends.term = parse_term(value); return true;
        case kDevice: request.device = parse_device(value); return true;
        case kOutput: request.output = parse_json_name(value); return true;
        default: return false;
        }
    });
    if (request.action != Action::run) return request;
    if (optind < argc) usage_error("'" + std::string(argv[optind]) + "': accumulate needs options alone");
    return request;
}

StartUpRequest parse_start_up(int argc, char** argv) {
    StartUpRequest request;
    request.action = take_options(argc, argv, kNoOptions, [](int, const char*) { return false; });
    if (request.action == Action::run && optind < argc)
        usage_error("start-up takes no '" + std::string(argv[optind]) + "'");
    return request;
}

} // namespace hw4::bench
