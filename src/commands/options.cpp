#include "src/commands/options.h"

#include <getopt.h>

#include "src/base/error.h"
#include "src/base/numbers.h"
#include "src/base/refused_option.h"

namespace hw4 {

const char* const kVersion = "0.1.0";

const char* const kHelpText =
    "usage: hw4 [options] INPUT OUTPUT\n"
    "\n"
    "Attention, O = softmax(Q K^T / sqrt(d)) V, from file to file, on the GPU or the CPU, with the bytes of\n"
    "the sequential program seq on both.\n"
    "\n"
    "  hw4 t28.in t28.out                    the GPU if there is one, otherwise the CPU\n"
    "  hw4 --device cpu --threads 4 a.in a.out\n"
    "  hw4 --time --json run.json a.in a.out\n"
    "\n"
    "INPUT is little-endian: int32 B, N, d, then for each batch float32 Q, K, V of N x d each, row by row;\n"
    "plain or gzip. OUTPUT is B x N x d float32. It is written under a temporary name beside OUTPUT and renamed\n"
    "when complete, so a failed run leaves an existing OUTPUT as it was. What a killed run leaves behind, a file\n"
    "OUTPUT.hw4-*.tmp, is removed by the next run for the same OUTPUT. A file that is a mount point of its own cannot "
    "be\n"
    "replaced: the complete result is copied into it at the end. Rights and access lists of an old OUTPUT are kept.\n"
    "\n"
    "options:\n"
    "  --arith f32|fixed       the arithmetic: float32 (the default), or integers, for d up to 256; the bytes differ\n"
    "  --device auto|gpu|cpu   where to compute; auto (the default) says why when it takes the CPU\n"
    "  --kernel NAME           a certain kernel, GPU or CPU; default: the best for the case\n"
    "  --list-kernels          the kernels of this build and the arithmetic of each\n"
    "  --streams N             chunks on the GPU at once, each in a CUDA stream, 1 to 16, default 4\n"
    "  --copies 2d|linear      padded rows and 2-D copies, or packed rows and flat copies; default 2d\n"
    "  --threads N             CPU threads, 1 to 1024, default: all processors\n"
    "  --time                  print how long each stage was busy, bytes and GB/s, memory\n"
    "  --json FILE             write the same as JSON to FILE\n"
    "  --trace FILE            write when each thread and stream did what, for Perfetto or chrome://tracing\n"
    "  --sync                  return only when OUTPUT is safe on the disk\n"
    "  --help, --version\n"
    "\n"
    "exit codes:\n"
    "   0  done\n"
    "  64  wrong usage, or OUTPUT is the INPUT file\n"
    "  65  bad data: not a test case, wrong size, NaN or Inf, numbers whose scores overflow, d too large\n"
    "  66  INPUT cannot be opened\n"
    "  69  no usable GPU (with --device gpu, or a GPU kernel of this build asked for)\n"
    "  70  internal error: a CUDA call failed\n"
    "  71  out of memory, on the host or the GPU, or the GPU is another program's\n"
    "  73  OUTPUT cannot be created\n"
    "  74  reading or writing failed; if only standard output did, OUTPUT is complete\n"
    " 130, 143, 129  ended by SIGINT, SIGTERM, SIGHUP\n";

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

Arithmetic parse_arithmetic_option(const std::string& name) {
    Arithmetic arithmetic{};
    if (!parse_arithmetic(name.c_str(), arithmetic)) usage_error("--arith '" + name + "': need f32 or fixed");
    return arithmetic;
}

Copies parse_copies(const std::string& name) {
    for (const Copies copies : {Copies::two_d, Copies::linear})
        if (name == name_of(copies)) return copies;
    usage_error("--copies '" + name + "': need 2d or linear");
}

enum Option : int {
    kDevice = kLong,
    kArith,
    kKernel,
    kListKernels,
    kStreams,
    kCopies,
    kThreads,
    kTime,
    kJson,
    kTrace,
    kSync,
    kHelp,
    kVersionOption
};

constexpr option kOptions[] = {{"arith", required_argument, nullptr, kArith},
                               {"device", required_argument, nullptr, kDevice},
                               {"kernel", required_argument, nullptr, kKernel},
                               {"list-kernels", no_argument, nullptr, kListKernels},
                               {"streams", required_argument, nullptr, kStreams},
                               {"copies", required_argument, nullptr, kCopies},
                               {"threads", required_argument, nullptr, kThreads},
                               {"time", no_argument, nullptr, kTime},
                               {"json", required_argument, nullptr, kJson},
                               {"trace", required_argument, nullptr, kTrace},
                               {"sync", no_argument, nullptr, kSync},
                               {"help", no_argument, nullptr, kHelp},
                               {"version", no_argument, nullptr, kVersionOption},
                               {nullptr, 0, nullptr, 0}};

[[noreturn]] void refuse_option(char** argv) {
    const std::string option = "option '" + refused_option(argv) + "'";
    usage_error(optopt >= kLong ? option + " takes no value" : "unknown or ambiguous " + option);
}

} // namespace

Options parse_options(int argc, char** argv) {
    Options options;
    opterr = 0; // one line of our own instead of getopt's
    optind = 0; // start over, also when a test parses twice
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no other threads yet
    for (int code = 0; (code = getopt_long(argc, argv, ":", kOptions, nullptr)) != -1;) {
        switch (code) {
        case kArith: options.engine.arithmetic = parse_arithmetic_option(optarg); break;
        case kDevice: options.device = parse_device(optarg); break;
        case kKernel: options.engine.kernel = parse_name("kernel", optarg); break;
        case kListKernels: options.action = Action::list_kernels; break;
        case kStreams: options.engine.streams = parse_count("streams", optarg, 16); break;
        case kCopies: options.engine.copies = parse_copies(optarg); break;
        case kThreads: options.engine.threads = parse_count("threads", optarg, 1024); break;
        case kTime: options.time = true; break;
        case kJson: options.json = parse_name("json", optarg); break;
        case kTrace: options.trace = parse_name("trace", optarg); break;
        case kSync: options.sync = true; break;
        case kHelp: options.action = Action::help; return options;
        case kVersionOption: options.action = Action::version; return options;
        case ':': usage_error("option '" + refused_option(argv) + "' needs a value");
        default: refuse_option(argv);
        }
    }
    if (options.action != Action::run) return options;
    const int names = argc - optind;
    if (names != 2)
        usage_error("need INPUT and OUTPUT, got " + std::to_string(names) + (names == 1 ? " name" : " names"));
    options.input = argv[optind];
    options.output = argv[optind + 1];
    return options;
}

} // namespace hw4
