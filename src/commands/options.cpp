#include "src/commands/options.h"

#include <getopt.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "src/base/error.h"
#include "src/base/numbers.h"
#include "src/base/refused_option.h"
#include "src/base/standard_streams.h"

namespace hw4 {

namespace {

[[noreturn]] void usage_error(const std::string& what) { throw Error(ExitCode::usage, what + "; see --help"); }

int parse_count(const char* option, const char* text, int most) {
    const auto value = whole_number(text, 1, most);
    if (!value)
        usage_error("--" + std::string(option) + " '" + text + "': need a whole number from 1 to " +
                    std::to_string(most));
    return static_cast<int>(*value);
}

// An empty one is a shell's variable that was not set, and would pass for none.
std::string parse_name(const char* option, const std::string& name) {
    if (name.empty()) usage_error("--" + std::string(option) + " '': need a name");
    return name;
}

Device parse_device(const std::string& name) {
    if (name == "auto") return Device::automatic;
    if (name == "gpu") return Device::gpu;
    if (name == "cpu") return Device::cpu;
    usage_error("--device '" + name + "': need auto, gpu or cpu");
}

const Contract* parse_contract(const std::string& name) {
    const Contract* contract = find_contract(name);
    if (contract == nullptr) usage_error(unknown_contract(name));
    return contract;
}

Copies parse_copies(const std::string& name) {
    for (const Copies copies : {Copies::two_d, Copies::linear})
        if (name == name_of(copies)) return copies;
    usage_error("--copies '" + name + "': need 2d or linear");
}

// all, how many, or which ones.
std::vector<int> parse_gpus(const std::string& text) {
    constexpr int64_t kMost = 1024;
    std::vector<int> cards;
    if (text == "all") return cards;
    const auto refuse = [&] { usage_error("--gpus '" + text + "': need all, how many, or which: 0,2"); };
    if (text.find(',') == std::string::npos) {
        const auto count = whole_number(text, 1, kMost);
        if (!count) refuse();
        for (int card = 0; card < *count; ++card) cards.push_back(card);
        return cards;
    }
    for (size_t at = 0, end = 0; at <= text.size(); at = end + 1) {
        end = std::min(text.find(',', at), text.size());
        const auto card = whole_number(std::string_view(text).substr(at, end - at), 0, kMost);
        if (!card || std::find(cards.begin(), cards.end(), *card) != cards.end()) refuse();
        cards.push_back(static_cast<int>(*card));
    }
    return cards;
}

void refuse_sharing_standard_output(const std::vector<std::string>& outputs) {
    if (std::count_if(outputs.begin(), outputs.end(), is_standard_stream) > 1)
        usage_error("only one of OUTPUT, --lse, --json and --trace can be '-', standard output");
}

enum Option : int {
    kDevice = kLong,
    kContract,
    kKernel,
    kKernelFile,
    kGpus,
    kListKernels,
    kStreams,
    kCopies,
    kThreads,
    kCausal,
    kBackwardOption,
    kLse,
    kTime,
    kJson,
    kTrace,
    kPairs,
    kSync,
    kGather,
    kHelp,
    kVersionOption
};

constexpr option kOptions[] = {{"contract", required_argument, nullptr, kContract},
                               {"arith", required_argument, nullptr, kContract},
                               {"causal", no_argument, nullptr, kCausal},
                               {"backward", no_argument, nullptr, kBackwardOption},
                               {"lse", required_argument, nullptr, kLse},
                               {"q", required_argument, nullptr, ArrayNames::kQ},
                               {"k", required_argument, nullptr, ArrayNames::kK},
                               {"v", required_argument, nullptr, ArrayNames::kV},
                               {"do", required_argument, nullptr, ArrayNames::kDo},
                               {"dq", required_argument, nullptr, ArrayNames::kDq},
                               {"dk", required_argument, nullptr, ArrayNames::kDk},
                               {"dv", required_argument, nullptr, ArrayNames::kDv},
                               {"device", required_argument, nullptr, kDevice},
                               {"gpus", required_argument, nullptr, kGpus},
                               {"kernel", required_argument, nullptr, kKernel},
                               {"kernel-file", required_argument, nullptr, kKernelFile},
                               {"list-kernels", no_argument, nullptr, kListKernels},
                               {"streams", required_argument, nullptr, kStreams},
                               {"copies", required_argument, nullptr, kCopies},
                               {"threads", required_argument, nullptr, kThreads},
                               {"time", no_argument, nullptr, kTime},
                               {"json", required_argument, nullptr, kJson},
                               {"trace", required_argument, nullptr, kTrace},
                               {"pairs", required_argument, nullptr, kPairs},
                               {"sync", no_argument, nullptr, kSync},
                               {"gather", no_argument, nullptr, kGather},
                               {"help", no_argument, nullptr, kHelp},
                               {"version", no_argument, nullptr, kVersionOption},
                               {nullptr, 0, nullptr, 0}};

// The words that are no options. The first word of all may be a command (hw4.cu): a file of that name is ./NAME.
std::vector<CaseNames> parse_cases(const std::vector<std::string>& names, const std::string& pairs) {
    const std::string got = ", got " + std::to_string(names.size()) + (names.size() == 1 ? " name" : " names");
    if (!pairs.empty() && !names.empty()) usage_error("--pairs '" + pairs + "' names all files" + got + " more");
    if (pairs.empty() && (names.empty() || names.size() % 2 != 0)) usage_error("need INPUT and OUTPUT" + got);
    std::vector<CaseNames> cases;
    for (size_t i = 0; i < names.size(); i += 2) cases.push_back({names[i], names[i + 1]});
    return cases;
}

// The same where arrays are the input.
std::vector<CaseNames> parse_array_case(const std::vector<std::string>& names, const Options& options) {
    if (!options.pairs.empty())
        usage_error("--pairs '" + options.pairs + "' names all files, got --q, --k and --v too");
    const std::string why_not = options.arrays.why_not(names.size(), options.operation);
    if (!why_not.empty()) usage_error(why_not);
    return {{options.arrays.input(), names.empty() ? "" : names.front()}};
}

void refuse_what_gpus_lack(Options& options) {
    if (!options.gpus) return;
    if (options.device == Device::cpu) usage_error("--gpus is for GPUs, but --device asks for the CPU");
    options.device = Device::gpu;
}

// A kernel file has one kernel, for the GPU, that gives O.
void refuse_what_kernel_files_lack(const Options& options) {
    const std::string file = "--kernel-file '" + options.kernel_file + "'";
    if (options.kernel_file.empty()) return;
    if (!options.engine.kernel.empty()) usage_error(file + " and --kernel: take one of the two");
    if (options.device == Device::cpu) usage_error(file + " is for the GPU, but --device asks for the CPU");
    if (!options.lse.empty()) usage_error(file + " gives no logsumexp for --lse");
}

} // namespace

Options parse_options(int argc, char** argv) {
    Options options;
    opterr = 0; // one line of our own instead of getopt's
    optind = 0; // start over, also when a test parses twice
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no other threads yet
    for (int code = 0; (code = getopt_long(argc, argv, ":hV", kOptions, nullptr)) != -1;) {
        switch (code) {
        case kContract: options.engine.contract = parse_contract(optarg); break;
        case kCausal: options.causal = true; break;
        case kBackwardOption: options.operation = &kBackward; break;
        case kLse: options.lse = parse_name("lse", optarg); break;
        case kDevice: options.device = parse_device(optarg); break;
        case kGpus: options.gpus = parse_gpus(optarg); break;
        case kKernel: options.engine.kernel = parse_name("kernel", optarg); break;
        case kKernelFile: options.kernel_file = parse_name("kernel-file", optarg); break;
        case kListKernels: options.action = Action::list_kernels; break;
        case kStreams: options.engine.streams = parse_count("streams", optarg, 16); break;
        case kCopies: options.engine.copies = parse_copies(optarg); break;
        case kThreads: options.engine.threads = parse_count("threads", optarg, 1024); break;
        case kTime: options.time = true; break;
        case kJson: options.json = parse_name("json", optarg); break;
        case kTrace: options.trace = parse_name("trace", optarg); break;
        case kPairs: options.pairs = parse_name("pairs", optarg); break;
        case kSync: options.sync = true; break;
        case kGather: options.gather = true; break;
        case 'h':
        case kHelp: options.action = Action::help; return options;
        case 'V':
        case kVersionOption: options.action = Action::version; return options;
        case ':':
            if (optopt != kJson || options.action != Action::list_kernels)
                usage_error(why_refused(code, argv, kOptions));
            options.list_as_json = true;
            break;
        default:
            if (!options.arrays.take(code, optarg)) usage_error(why_refused(code, argv, kOptions));
        }
    }
    if (options.action == Action::list_kernels && !options.json.empty())
        usage_error("--list-kernels writes to standard output: --json goes last, without a name");
    if (options.action != Action::run) return options;
    const std::vector<std::string> words(argv + optind, argv + argc);
    options.cases = options.arrays.given() ? parse_array_case(words, options) : parse_cases(words, options.pairs);
    if (options.arrays.inputs().size() == kBackward.inputs.size()) options.operation = &kBackward;
    if (options.operation != nullptr && options.engine.contract->find(*options.operation) == nullptr)
        usage_error("--" + std::string(options.operation->name) + ": the contract " + options.engine.contract->name +
                    " lacks it");
    refuse_what_kernel_files_lack(options);
    refuse_what_gpus_lack(options);
    if (options.many() && options.gpus) usage_error("--gpus is for one case");
    if (options.many() && !options.lse.empty()) usage_error("--lse '" + options.lse + "' is the file of one case");
    std::vector<std::string> outputs = {options.lse, options.json, options.trace};
    for (const CaseNames& names : options.cases) outputs.push_back(names.output);
    refuse_sharing_standard_output(outputs);
    return options;
}

} // namespace hw4
