#include "src/commands/bench_options.h"

#include <algorithm>
#include <limits>

#include "src/base/standard_streams.h"
#include "src/commands/bench_values.h"
#include "src/io/case_values.h"

namespace hw4::bench {
namespace {

std::vector<int64_t> parse_sizes(const char* option, const std::string& text) {
    return parse_numbers(option, text, 1, kMostSize);
}

std::vector<std::string> parse_impls(const std::string& text) {
    std::vector<std::string> impls;
    for (const std::string& word : split(text, ',')) {
        const std::string name = implementation_named(word);
        if (name.empty()) refuse_name("impl", text, word, implementation_names());
        impls.push_back(name);
    }
    return impls;
}

// The contract's spelling of an implementation, or the name of a kernel.
std::string parse_baseline(const std::string& text) {
    const std::string name = implementation_named(text);
    return parse_name("relative-to", name.empty() ? text : name);
}

std::vector<std::string> parse_kernels(const std::string& text) {
    std::vector<std::string> names = split(text, ',');
    for (const std::string& name : names) parse_name("kernel", name);
    return names;
}

Timing parse_timing(const std::string& name) {
    for (const Timing timing : {Timing::event, Timing::wall})
        if (name == name_of(timing)) return timing;
    refuse_value("timing", name, "event or wall");
}

// "8G", "512m", "1000000"
int64_t parse_bytes(const char* option, const std::string& text, int64_t least) {
    const auto bytes = sized_number(text, least, std::numeric_limits<int64_t>::max());
    if (!bytes) refuse_value(option, text, "bytes, such as 8G, 512M or 1000000");
    return *bytes;
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

constexpr int kMostKvHeads = 1 << 20;
constexpr int kMostQueries = 1024; // for a decoding step

std::vector<CommandOption> options_of(Request& request) {
    Sweep& sweep = request.sweep;
    Cell& common = sweep.common;
    constexpr int kValue = required_argument;
    return {
        {"batch_size", kValue, [&](const char* value) { sweep.batch_size = parse_sizes("batch_size", value); }},
        {"seq_len", kValue, [&](const char* value) { sweep.seq_len = parse_sizes("seq_len", value); }},
        {"num_heads", kValue, [&](const char* value) { sweep.num_heads = parse_sizes("num_heads", value); }},
        {"emb_dim", kValue, [&](const char* value) { sweep.emb_dim = parse_sizes("emb_dim", value); }},
        {"impl", kValue, [&](const char* value) { sweep.impls = parse_impls(value); }},
        {"kv_heads", kValue,
         [&](const char* value) { common.kv_heads = parse_count("kv_heads", value, kMostKvHeads); }},
        {"decode", optional_argument,
         [&](const char* value) {
             common.queries = value == nullptr ? 1 : parse_count("decode", value, kMostQueries);
         }},
        {"causal", optional_argument, [&](const char* value) { sweep.causal = parse_yes_or_no("causal", value); }},
        {"repeats", kValue, [&](const char* value) { sweep.repeats = parse_count("repeats", value, kMostRepeats); }},
        {"preset", kValue, [&](const char* value) { sweep.preset = parse_preset(value, presets()); }},
        {"shape", kValue, [&](const char* value) { sweep.shapes.push_back(parse_shape(value)); }},
        {"kernel", kValue, [&](const char* value) { sweep.kernels = parse_kernels(value); }},
        {"relative-to", kValue, [&](const char* value) { sweep.baseline = parse_baseline(value); }},
        {"dtype", kValue, [&](const char* value) { sweep.elements = parse_named("dtype", value, kElements); }},
        {"passes", kValue, [&](const char* value) { request.passes = parse_named("passes", value, kPasses); }},
        {"kind", kValue, [&](const char* value) { common.kind = spelling_of(distribution_of(value)); }},
        {"threads", kValue, [&](const char* value) { common.threads = parse_count("threads", value, kMostThreads); }},
        {"warmup", kValue, [&](const char* value) { sweep.warmups = parse_warmups(value); }},
        {"limit", kValue, [&](const char* value) { common.rules.limit_s = parse_seconds(value); }},
        {"timing", kValue, [&](const char* value) { common.rules.timing = parse_timing(value); }},
        {"cold", no_argument, [&](const char*) { sweep.cold = true; }},
        {"once", no_argument,
         [&](const char*) {
             sweep.warmups = {0};
             sweep.repeats = 1;
         }},
        {"memory_limit", kValue,
         [&](const char* value) { common.memory_limit = parse_bytes("memory_limit", value, 1); }},
        {"scratch", kValue, [&](const char* value) { common.scratch = parse_bytes("scratch", value, 0); }},
        {"output", kValue, [&](const char* value) { request.output = parse_json_name(value); }},
        {"csv", kValue, [&](const char* value) { request.csv = parse_name("csv", value); }},
        {"memory", kValue, [&](const char* value) { request.memory = parse_pickle_name(value); }},
        {"kernel-file", kValue, [&](const char* value) { request.kernel_file = parse_name("kernel-file", value); }},
        {"device", kValue, [&](const char* value) { request.device = parse_device(value); }},
        flag("quiet", request.quiet),
    };
}

void refuse_contradictions(const Request& request) {
    const Sweep& sweep = request.sweep;
    if (sweep.common.decodes() && (sweep.common.wants(Pass::backward) || sweep.common.wants(Pass::forward_backward)))
        usage_error("--decode is about forward alone: not with --passes of others");
    if (is_standard_stream(request.output) && is_standard_stream(request.csv))
        usage_error("only one of --output and --csv can be '-', standard output");
    if (!sweep.shapes.empty() &&
        (sweep.preset != nullptr || sweep.batch_size || sweep.seq_len || sweep.num_heads || sweep.emb_dim))
        usage_error("--shape has all sizes: not with --preset, --batch_size, --seq_len, --num_heads or --emb_dim");
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
    request.action = take_options(argc, argv, options_of(request));
    if (request.action != Action::run) return request;
    if (optind < argc)
        usage_error("'" + std::string(argv[optind]) +
                    "': need options alone, or one of accumulate, start-up, allreduce and step" +
                    did_you_mean(argv[optind], {"accumulate", "start-up", "allreduce", "step"}));
    if (request.sweep.common.decodes() && !request.passes) request.passes = {Pass::forward};
    if (request.passes) set_passes(request.sweep.common, *request.passes);
    refuse_contradictions(request);
    return request;
}

AccumulateRequest parse_accumulate(int argc, char** argv) {
    AccumulateRequest request;
    request.action = take_options(
        argc, argv,
        {{"device", required_argument, [&](const char* value) { request.device = parse_device(value); }},
         {"output", required_argument, [&](const char* value) { request.output = parse_json_name(value); }}});
    if (request.action != Action::run) return request;
    if (optind < argc) usage_error("'" + std::string(argv[optind]) + "': accumulate needs options alone");
    return request;
}

StartUpRequest parse_start_up(int argc, char** argv) {
    StartUpRequest request;
    request.action = take_options(argc, argv, {});
    if (request.action == Action::run && optind < argc)
        usage_error("start-up takes no '" + std::string(argv[optind]) + "'");
    return request;
}

} // namespace hw4::bench
