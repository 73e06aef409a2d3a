#include "src/commands/bench_options.h"

#include <algorithm>
#include <limits>

#include "src/base/json.h"
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
    kKernel,
    kDtype,
    kPassesOption,
    kKind,
    kDevice,
    kThreads,
    kWarmup,
    kSpread,
    kLimit,
    kTiming,
    kCold,
    kMemoryLimit,
    kCsv,
    kMarkdown,
    kMemory,
    kResume,
    kSeparate,
    kQuiet,
    kMachine,
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
                               {"kernel", required_argument, nullptr, kKernel},
                               {"dtype", required_argument, nullptr, kDtype},
                               {"passes", required_argument, nullptr, kPassesOption},
                               {"kind", required_argument, nullptr, kKind},
                               {"device", required_argument, nullptr, kDevice},
                               {"threads", required_argument, nullptr, kThreads},
                               {"warmup", required_argument, nullptr, kWarmup},
                               {"spread", required_argument, nullptr, kSpread},
                               {"limit", required_argument, nullptr, kLimit},
                               {"timing", required_argument, nullptr, kTiming},
                               {"cold", no_argument, nullptr, kCold},
                               {"memory_limit", required_argument, nullptr, kMemoryLimit},
                               {"memory-limit", required_argument, nullptr, kMemoryLimit},
                               {"csv", required_argument, nullptr, kCsv},
                               {"markdown", required_argument, nullptr, kMarkdown},
                               {"memory", required_argument, nullptr, kMemory},
                               {"resume", no_argument, nullptr, kResume},
                               {"separate", no_argument, nullptr, kSeparate},
                               {"quiet", no_argument, nullptr, kQuiet},
                               {"machine", no_argument, nullptr, kMachine},
                               {"help", no_argument, nullptr, kHelp},
                               {"version", no_argument, nullptr, kVersionOption},
                               {nullptr, 0, nullptr, 0}};

constexpr option kCompareOptions[] = {{"threshold", required_argument, nullptr, kThreshold},
                                      {"help", no_argument, nullptr, kHelp},
                                      {"version", no_argument, nullptr, kVersionOption},
                                      {nullptr, 0, nullptr, 0}};

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
int64_t parse_bytes(const std::string& text) {
    const auto bytes = sized_number(text, 1, std::numeric_limits<int64_t>::max());
    if (!bytes) refuse_value("memory_limit", text, "bytes, such as 8G, 512M or 1000000");
    return *bytes;
}

void take_memory(const std::string& name, Request& request) {
    request.memory = name;
    const bool counters = ends_in(name, ".json");
    request.memory_form = counters ? MemoryPicture::Form::counters : MemoryPicture::Form::pickle;
    if (!counters && !ends_in(name, ".pickle")) refuse_value("memory", name, "a name that ends in .pickle or .json");
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
    case kKernel: sweep.kernels = parse_kernels(value); return true;
    case kDtype: sweep.elements = parse_named("dtype", value, kElements); return true;
    case kPassesOption: set_passes(sweep.common, parse_named("passes", value, kPasses)); return true;
    case kKind: sweep.common.kind = spelling_of(distribution_of(value)); return true;
    case kThreads: sweep.common.threads = parse_count("threads", value, kMostThreads); return true;
    case kWarmup: sweep.warmups = parse_warmups(value); return true;
    case kSpread: sweep.common.rules.spread_percent = parse_percent("spread", value); return true;
    case kLimit: sweep.common.rules.limit_s = parse_seconds(value); return true;
    case kTiming: sweep.common.rules.timing = parse_timing(value); return true;
    case kCold: sweep.cold = true; return true;
    case kMemoryLimit: sweep.common.memory_limit = parse_bytes(value); return true;
    default: return false;
    }
}

// False: not one of those that say where cells are measured and where rows go.
bool take_for_request(int code, const char* value, Request& request) {
    switch (code) {
    case kOutput: request.output = parse_json_name(value); return true;
    case kCsv: request.csv = parse_name("csv", value); return true;
    case kMarkdown: request.markdown = parse_name("markdown", value); return true;
    case kMemory: take_memory(value, request); return true;
    case kDevice: request.device = parse_device(value); return true;
    case kResume: request.resume = true; return true;
    case kSeparate: request.separate = true; return true;
    case kQuiet: request.quiet = true; return true;
    case kMachine: request.machine = true; return true;
    default: return false;
    }
}

void refuse_contradictions(const Request& request) {
    const std::vector<std::string> files = {request.output, request.csv, request.markdown};
    if (std::count_if(files.begin(), files.end(), is_standard_stream) > 1)
        usage_error("only one of --output, --csv and --markdown can be '-', standard output");
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
                    "': need options alone, or one of compare, accumulate, allreduce and gradients" +
                    did_you_mean(argv[optind], {"compare", "accumulate", "allreduce", "gradients"}));
    refuse_contradictions(request);
    return request;
}

std::vector<std::string> options_for(const Cell& cell) {
    std::string passes;
    for (const Pass pass : kPasses)
        if (cell.wants(pass)) passes += (passes.empty() ? "" : ",") + std::string(name_of(pass));
    std::vector<std::string> words = {"--impl",
                                      cell.impl,
                                      "--dtype",
                                      name_of(cell.element),
                                      "--batch_size",
                                      std::to_string(cell.batch_size),
                                      "--seq_len",
                                      std::to_string(cell.seq_len),
                                      "--num_heads",
                                      std::to_string(cell.num_heads),
                                      "--emb_dim",
                                      std::to_string(cell.emb_dim),
                                      cell.causal ? "--causal" : "--causal=no",
                                      "--passes",
                                      passes,
                                      "--kind",
                                      cell.kind,
                                      "--device",
                                      cell.device,
                                      "--repeats",
                                      std::to_string(cell.rules.repeats),
                                      "--spread",
                                      json_number(cell.rules.spread_percent),
                                      "--limit",
                                      json_number(cell.rules.limit_s),
                                      "--timing",
                                      name_of(cell.rules.timing)};
    const auto add = [&](const char* option, const std::string& value) {
        words.emplace_back(option);
        words.push_back(value);
    };
    if (!cell.kernel.empty()) add("--kernel", cell.kernel);
    if (cell.threads > 0) add("--threads", std::to_string(cell.threads));
    if (cell.rules.warmup != Rules::kByTime) add("--warmup", std::to_string(cell.rules.warmup));
    if (cell.memory_limit > 0) add("--memory_limit", std::to_string(cell.memory_limit));
    if (cell.rules.cold) words.emplace_back("--cold");
    return words;
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

} // namespace hw4::bench
