#include "src/commands/options.h"

#include "src/base/numbers.h"

namespace hw4 {

namespace {

Copies parse_copies(const std::string& name) {
    for (const Copies copies : {Copies::two_d, Copies::linear})
        if (name == name_of(copies)) return copies;
    refuse_value("copies", name, "2d or linear");
}

// 0: all.
int parse_gpus(const std::string& text) {
    const auto count = text == "all" ? 0 : whole_number(text, 1, 1024);
    if (!count) refuse_value("gpus", text, "all or a number");
    return static_cast<int>(*count);
}

// The first word may be a command (hw4.cu): a file of that name is ./NAME.
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

// A kernel file has one kernel, for the GPU, that computes O.
void refuse_what_kernel_files_lack(const Options& options) {
    const std::string file = "--kernel-file '" + options.kernel_file + "'";
    if (options.kernel_file.empty()) return;
    if (!options.engine.kernel.empty()) usage_error(file + " and --kernel: take one of the two");
    if (options.device == Device::cpu) usage_error(file + " is for the GPU, but --device asks for the CPU");
    if (!options.lse.empty()) usage_error(file + " gives no logsumexp for --lse");
}

// Checks the whole line, once all of it is known.
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

int parse_count(const char* option, const std::string& text, int most) {
    const auto value = whole_number(text, 1, most);
    if (!value) refuse_value(option, text, "a whole number from 1 to " + std::to_string(most));
    return static_cast<int>(*value);
}

Device parse_device(const std::string& name) {
    if (name == "auto") return Device::automatic;
    if (name == "gpu") return Device::gpu;
    if (name == "cpu") return Device::cpu;
    refuse_value("device", name, "auto, gpu or cpu");
}

Options parse_options(int argc, char** argv) {
    Options options;
    EngineOptions& engine = options.engine;
    constexpr int kValue = required_argument;
    const auto list_as_json = [&] { return options.list_as_json = options.action == Action::list_kernels; };
    std::vector<CommandOption> list = options.options(engine.contract);
    list.insert(
        list.end(),
        {{"device", kValue, [&](const char* value) { options.device = parse_device(value); }},
         {"gpus", kValue, [&](const char* value) { options.gpus = parse_gpus(value); }},
         {"kernel", kValue, [&](const char* value) { engine.kernel = parse_name("kernel", value); }},
         {"kernel-file", kValue, [&](const char* value) { options.kernel_file = parse_name("kernel-file", value); }},
         {"list-kernels", no_argument, [&](const char*) { options.action = Action::list_kernels; }},
         {"streams", kValue, [&](const char* value) { engine.streams = parse_count("streams", value, 16); }},
         {"copies", kValue, [&](const char* value) { engine.copies = parse_copies(value); }},
         {"threads", kValue, [&](const char* value) { engine.threads = parse_count("threads", value, 1024); }},
         flag("time", options.time),
         {"json", kValue, [&](const char* value) { options.json = parse_name("json", value); }, list_as_json},
         {"trace", kValue, [&](const char* value) { options.trace = parse_name("trace", value); }},
         {"pairs", kValue, [&](const char* value) { options.pairs = parse_name("pairs", value); }},
         flag("sync", options.sync),
         flag("gather", options.gather)});
    const Action asked = take_options(argc, argv, list);
    if (asked != Action::run) {
        options.action = asked;
        return options;
    }
    if (options.action == Action::list_kernels && !options.json.empty())
        usage_error("--list-kernels writes to standard output: --json goes last, without a name");
    if (options.action != Action::run) return options;
    options.cases = cases_in({argv + optind, argv + argc}, options);
    refuse_what_does_not_fit(options);
    return options;
}

} // namespace hw4
