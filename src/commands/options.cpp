#include "src/commands/options.h"

#include <getopt.h>

#include <algorithm>
#include <string_view>

#include "src/base/error.h"
#include "src/base/numbers.h"
#include "src/base/refused_option.h"

namespace hw4 {

namespace {

int parse_count(const char* option, const char* text, int most) {
    const auto value = whole_number(text, 1, most);
    if (!value)
        usage_error("--" + std::string(option) + " '" + text + "': need a whole number from 1 to " +
                    std::to_string(most));
    return static_cast<int>(*value);
}

Device parse_device(const std::string& name) {
    if (name == "auto") return Device::automatic;
    if (name == "gpu") return Device::gpu;
    if (name == "cpu") return Device::cpu;
    usage_error("--device '" + name + "': need auto, gpu or cpu");
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

enum Option : int {
    kDevice = CaseOptions::kOwn,
    kKernel,
    kKernelFile,
    kGpus,
    kListKernels,
    kStreams,
    kCopies,
    kThreads,
    kTime,
    kJson,
    kTrace,
    kPairs,
    kSync,
    kGather
};

// The first word of all may be a command (hw4.cu): a file of that name is ./NAME.
std::vector<CaseNames> cases_in(const std::vector<std::string>& words, Options& options) {
    if (options.pairs.empty()) return options.cases_of(words);
    const std::string all = "--pairs '" + options.pairs + "' names all files, got ";
    if (options.arrays.given()) usage_error(all + "--q, --k and --v too");
    if (!words.empty())
        usage_error(all + std::to_string(words.size()) + (words.size() == 1 ? " name" : " names") + " more");
    return {};
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

// What the whole line says, once all of it is known.
void refuse_what_does_not_fit(Options& options) {
    options.refuse_what_lacks(*options.engine.contract);
    refuse_what_kernel_files_lack(options);
    refuse_what_gpus_lack(options);
    if (options.many() && options.gpus) usage_error("--gpus is for one case");
    if (options.many() && !options.lse.empty()) usage_error("--lse '" + options.lse + "' is the file of one case");
    std::vector<std::string> outputs = {options.lse, options.json, options.trace};
    for (const CaseNames& names : options.cases) outputs.push_back(names.output);
    refuse_sharing_standard_output(outputs);
}

} // namespace

Options parse_options(int argc, char** argv) {
    const std::vector<option> table = CaseOptions::table({{"device", required_argument, nullptr, kDevice},
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
                                                          {"gather", no_argument, nullptr, kGather}});
    Options options;
    opterr = 0; // one line of our own instead of getopt's
    optind = 0; // start over, also when a test parses twice
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no other threads yet
    for (int code = 0; (code = getopt_long(argc, argv, ":hV", table.data(), nullptr)) != -1;) {
        switch (code) {
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
        case CaseOptions::kHelp: options.action = Action::help; return options;
        case 'V':
        case CaseOptions::kVersion: options.action = Action::version; return options;
        default:
            if (code == ':' && optopt == kJson && options.action == Action::list_kernels)
                options.list_as_json = true;
            else if (!options.take(code, optarg, options.engine.contract))
                usage_error(why_refused(code, argv, table.data()));
        }
    }
    if (options.action == Action::list_kernels && !options.json.empty())
        usage_error("--list-kernels writes to standard output: --json goes last, without a name");
    if (options.action != Action::run) return options;
    options.cases = cases_in({argv + optind, argv + argc}, options);
    refuse_what_does_not_fit(options);
    return options;
}

} // namespace hw4
