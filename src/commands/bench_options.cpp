#include "src/commands/bench_options.h"

#include <getopt.h>

#include <algorithm>
#include <limits>

#include "src/base/error.h"
#include "src/base/json.h"
#include "src/base/numbers.h"
#include "src/base/refused_option.h"
#include "src/base/standard_streams.h"
#include "src/bench/number_list.h"
#include "src/io/case_values.h"

namespace hw4::bench {
namespace {

constexpr double kMostSeconds = 1e6;

enum Option : int {
    kBatchSize = kLong,
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
    kHelp,
    kVersionOption,
    kThreshold,
    kCount,
    kTerm,
    kSizes,
    kVia,
    kContributions,
    kModel,
    kWays,
    kBuckets,
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

constexpr option kAllreduceOptions[] = {{"sizes", required_argument, nullptr, kSizes},
                                        {"via", required_argument, nullptr, kVia},
                                        {"contributions", required_argument, nullptr, kContributions},
                                        {"device", required_argument, nullptr, kDevice},
                                        {"warmup", required_argument, nullptr, kWarmup},
                                        {"repeats", required_argument, nullptr, kRepeats},
                                        {"limit", required_argument, nullptr, kLimit},
                                        {"output", required_argument, nullptr, kOutput},
                                        {"csv", required_argument, nullptr, kCsv},
                                        {"quiet", no_argument, nullptr, kQuiet},
                                        {"help", no_argument, nullptr, kHelp},
                                        {"version", no_argument, nullptr, kVersionOption},
                                        {nullptr, 0, nullptr, 0}};

constexpr option kGradientsOptions[] = {{"model", required_argument, nullptr, kModel},
                                        {"ways", required_argument, nullptr, kWays},
                                        {"buckets", required_argument, nullptr, kBuckets},
                                        {"batch_size", required_argument, nullptr, kBatchSize},
                                        {"batch-size", required_argument, nullptr, kBatchSize},
                                        {"seq_len", required_argument, nullptr, kSeqLen},
                                        {"seq-len", required_argument, nullptr, kSeqLen},
                                        {"threads", required_argument, nullptr, kThreads},
                                        {"via", required_argument, nullptr, kVia},
                                        {"contributions", required_argument, nullptr, kContributions},
                                        {"device", required_argument, nullptr, kDevice},
                                        {"warmup", required_argument, nullptr, kWarmup},
                                        {"repeats", required_argument, nullptr, kRepeats},
                                        {"limit", required_argument, nullptr, kLimit},
                                        {"output", required_argument, nullptr, kOutput},
                                        {"csv", required_argument, nullptr, kCsv},
                                        {"quiet", no_argument, nullptr, kQuiet},
                                        {"help", no_argument, nullptr, kHelp},
                                        {"version", no_argument, nullptr, kVersionOption},
                                        {nullptr, 0, nullptr, 0}};

[[noreturn]] void usage_error(const std::string& what) { throw Error(ExitCode::usage, what + "; see bench --help"); }

[[noreturn]] void refuse_value(const char* option, const std::string& text, const std::string& need) {
    usage_error("--" + std::string(option) + " '" + text + "': need " + need);
}

std::vector<int64_t> parse_numbers(const char* option, const std::string& text, int64_t least, int64_t most) {
    const auto numbers = number_list(text, least, most);
    if (!numbers)
        refuse_value(option, text,
                     "whole numbers from " + std::to_string(least) + " to " + std::to_string(most) +
                         ", such as 512,1k..16k*2");
    return *numbers;
}

std::vector<int64_t> parse_sizes(const char* option, const std::string& text) {
    return parse_numbers(option, text, 1, kMostSize);
}

int parse_count(const char* option, const std::string& text, int most) {
    const auto value = whole_number(text, 1, most);
    if (!value) refuse_value(option, text, "a whole number from 1 to " + std::to_string(most));
    return static_cast<int>(*value);
}

std::string parse_name(const char* option, const std::string& name) {
    if (name.empty()) refuse_value(option, name, "a name");
    return name;
}

std::vector<std::string> parse_impls(const std::string& text) {
    std::vector<std::string> impls;
    for (const std::string& word : split_at_commas(text)) {
        const std::string name = implementation_named(word);
        if (name.empty()) {
            std::string names;
            for (const std::string& known : implementation_names()) names += (names.empty() ? "" : ", ") + known;
            refuse_value("impl", text, "some of " + names);
        }
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

// Those of `all` whose names are in the list.
template <class Value, size_t kCount>
std::vector<Value> parse_named(const char* option, const std::string& text, const Value (&all)[kCount]) {
    std::vector<Value> values;
    for (const std::string& word : split_at_commas(text)) {
        const Value* const found = std::find_if(all, all + kCount, [&](Value value) { return word == name_of(value); });
        if (found == all + kCount) {
            std::string names;
            for (const Value value : all) names += (names.empty() ? "" : ", ") + std::string(name_of(value));
            refuse_value(option, text, "some of " + names);
        }
        values.push_back(*found);
    }
    return values;
}

const Preset* parse_preset(const std::string& name) {
    std::string names;
    for (const Preset& preset : presets()) {
        if (name == preset.name) return &preset;
        names += (names.empty() ? "" : ", ") + std::string(preset.name);
    }
    refuse_value("preset", name, "one of " + names);
}

std::vector<std::string> parse_kernels(const std::string& text) {
    std::vector<std::string> names = split_at_commas(text);
    for (const std::string& name : names) parse_name("kernel", name);
    return names;
}

Device parse_device(const std::string& name) {
    if (name == "auto") return Device::automatic;
    if (name == "gpu") return Device::gpu;
    if (name == "cpu") return Device::cpu;
    refuse_value("device", name, "auto, gpu or cpu");
}

Timing parse_timing(const std::string& name) {
    for (const Timing timing : {Timing::event, Timing::wall})
        if (name == name_of(timing)) return timing;
    refuse_value("timing", name, "event or wall");
}

std::vector<int> parse_warmups(const std::string& text) {
    std::vector<int> warmups;
    for (const int64_t number : parse_numbers("warmup", text, 0, kMostRepeats))
        warmups.push_back(static_cast<int>(number));
    return warmups;
}

// "3%" or "3": percent.
double parse_percent(const char* option, std::string text) {
    const std::string given = text;
    if (!text.empty() && text.back() == '%') text.pop_back();
    const auto percent = decimal_number(text, 0, 1000);
    if (!percent) refuse_value(option, given, "percent, from 0 to 1000");
    return *percent;
}

double parse_seconds(const std::string& text) {
    const auto seconds = decimal_number(text, 0, kMostSeconds);
    if (!seconds) refuse_value("limit", text, "seconds, from 0 to 1e6");
    return *seconds;
}

float parse_term(const std::string& text) {
    const auto term = decimal_number(text, -1e4, 1e4);
    if (!term) refuse_value("term", text, "a number from -1e4 to 1e4");
    return static_cast<float>(*term);
}

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
            std::string names;
            for (const Model& known : models()) names += (names.empty() ? "" : ", ") + std::string(known.name);
            refuse_value("model", text, "some of " + names);
        }
        found.push_back(&*model);
    }
    return found;
}

// "8G", "512m", "1000000"
int64_t parse_bytes(const std::string& text) {
    const auto bytes = sized_number(text, 1, std::numeric_limits<int64_t>::max());
    if (!bytes) refuse_value("memory_limit", text, "bytes, such as 8G, 512M or 1000000");
    return *bytes;
}

bool ends_in(const std::string& name, const std::string& ending) {
    return name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0;
}

// As lab5.py refuses it.
std::string parse_json_name(const std::string& name) {
    if (!ends_in(name, ".json") && !is_standard_stream(name))
        refuse_value("output", name, "a name that ends in .json, or -");
    return name;
}

void take_memory(const std::string& name, Request& request) {
    request.memory = name;
    const bool counters = ends_in(name, ".json");
    request.memory_form = counters ? MemoryPicture::Form::counters : MemoryPicture::Form::pickle;
    if (!counters && !ends_in(name, ".pickle")) refuse_value("memory", name, "a name that ends in .pickle or .json");
}

[[noreturn]] void refuse_option(char** argv) {
    const std::string option = "option '" + refused_option(argv) + "'";
    usage_error(optopt >= kLong ? option + " takes no value" : "unknown or ambiguous " + option);
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
    opterr = 0;
    optind = 0;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no other threads yet
    for (int code = 0; (code = getopt_long(argc, argv, ":hV", options, nullptr)) != -1;) {
        if (take(code, optarg) || take_for_ranks(code, optarg, request)) continue;
        switch (code) {
        case 'h':
        case kHelp: request.action = Action::help; return;
        case 'V':
        case kVersionOption: request.action = Action::version; return;
        case ':': usage_error("option '" + refused_option(argv) + "' needs a value");
        default: refuse_option(argv);
        }
    }
    if (optind < argc) usage_error("'" + std::string(argv[optind]) + "': need options alone");
    if (is_standard_stream(request.output) && is_standard_stream(request.csv))
        usage_error("only one of --output and --csv can be '-', standard output");
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
    opterr = 0; // one line of our own instead of getopt's
    optind = 0; // start over, also when a test parses twice
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no other threads yet
    for (int code = 0; (code = getopt_long(argc, argv, ":hV", kOptions, nullptr)) != -1;) {
        if (take_for_sweep(code, optarg, request.sweep)) continue;
        switch (code) {
        case kOutput: request.output = parse_json_name(optarg); break;
        case kCsv: request.csv = parse_name("csv", optarg); break;
        case kMarkdown: request.markdown = parse_name("markdown", optarg); break;
        case kMemory: take_memory(optarg, request); break;
        case kDevice: request.device = parse_device(optarg); break;
        case kResume: request.resume = true; break;
        case kSeparate: request.separate = true; break;
        case kQuiet: request.quiet = true; break;
        case kMachine: request.machine = true; break;
        case 'h':
        case kHelp: request.action = Action::help; return request;
        case 'V':
        case kVersionOption: request.action = Action::version; return request;
        case ':': usage_error("option '" + refused_option(argv) + "' needs a value");
        default: refuse_option(argv);
        }
    }
    if (optind < argc)
        usage_error("'" + std::string(argv[optind]) +
                    "': need options alone, or one of compare, accumulate, allreduce and gradients");
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
    opterr = 0;
    optind = 0;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no other threads yet
    for (int code = 0; (code = getopt_long(argc, argv, ":hV", kCompareOptions, nullptr)) != -1;) {
        switch (code) {
        case kThreshold: request.threshold = parse_percent("threshold", optarg) / 100; break;
        case 'h':
        case kHelp: request.action = Action::help; return request;
        case 'V':
        case kVersionOption: request.action = Action::version; return request;
        case ':': usage_error("option '" + refused_option(argv) + "' needs a value");
        default: refuse_option(argv);
        }
    }
    if (argc - optind != 2)
        usage_error("compare needs OLD and NEW, got " + std::to_string(argc - optind) +
                    (argc - optind == 1 ? " name" : " names"));
    request.before = argv[optind];
    request.after = argv[optind + 1];
    return request;
}

AccumulateRequest parse_accumulate(int argc, char** argv) {
    AccumulateRequest request;
    opterr = 0;
    optind = 0;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no other threads yet
    for (int code = 0; (code = getopt_long(argc, argv, ":hV", kAccumulateOptions, nullptr)) != -1;) {
        switch (code) {
        case kCount: request.addends.count = parse_count("count", optarg, kMostRepeats); break;
        case kTerm: request.addends.term = parse_term(optarg); break;
        case kDevice: request.device = parse_device(optarg); break;
        case kOutput: request.output = parse_json_name(optarg); break;
        case 'h':
        case kHelp: request.action = Action::help; return request;
        case 'V':
        case kVersionOption: request.action = Action::version; return request;
        case ':': usage_error("option '" + refused_option(argv) + "' needs a value");
        default: refuse_option(argv);
        }
    }
    if (optind < argc) usage_error("'" + std::string(argv[optind]) + "': accumulate needs options alone");
    return request;
}

AllreduceRequest parse_allreduce(int argc, char** argv) {
    AllreduceRequest request;
    request.sizes = parse_byte_sizes("sizes", "1m..1g*10");
    parse_for_ranks(argc, argv, kAllreduceOptions, request, [&](int code, const char* value) {
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
    parse_for_ranks(argc, argv, kGradientsOptions, request, [&](int code, const char* value) {
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
