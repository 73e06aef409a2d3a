#include <cstdio>

#include "src/base/error.h"
#include "src/base/help_text.h"
#include "src/base/standard_streams.h"
#include "src/commands/run.h"
#include "src/ranks/agree.h"

namespace hw4 {
namespace {

constexpr const char* kUsage = R"(usage: hw4 [options] INPUT OUTPUT [INPUT OUTPUT ...]
       hw4 [options] --q FILE --k FILE --v FILE [--do FILE] OUTPUT
       hw4 [options] --pairs FILE
       hw4 bench|train|help [...]

)";
constexpr const char* kWhatItIs = R"(Attention, O = softmax(Q K^T / sqrt(d)) V, or its gradients, from file to file,
on the GPU or the CPU. f32, fixed and fixed16 give the same bytes on every machine, the bytes of the sequential program
seq. bf16 and fp16 keep the error within a bound.
)";
constexpr const char* kExamples = R"(
  hw4 t28.in t28.out  on the GPU, or else the CPU
  hw4 --time --json run.json a.in a.out  what each stage took
  hw4 --contract fixed --causal a.in a.out  faster; with a causal mask
  hw4 --q q.npy --k k.npy --v v.npy o.npy  arrays of NumPy
  hw4 a.in a.out b.in b.out  two cases, one start of the GPU
  gunzip < a.in.gz | hw4 - - > a.out  standard input and output
)";

std::string option_topic() {
    return laid_out(choice("--contract", contracts()) + "  which arithmetic, see hw4 help contracts; default " +
                    contracts()[0]->name +
                    R"(
  --causal  use the causal mask, whatever INPUT says: query i sees the keys 0 to i + N_k - N_q. A query that sees no key
    gets a row of zeros
  --window W  with the causal mask: a query sees only the last W of its keys, its own included. Forward under f32 only
  --scale X  multiply scores by X, not by 1/sqrt(d): 2^-100 to 2^100, under fixed and fixed16 1/16 to 1. --window and
    --scale override INPUT
  --backward  compute gradients. INPUT of version 1 has Q, K, V, dO for each batch; INPUT of version 2 must ask for
    gradients itself. Not under fixed and fixed16
  --lse FILE  also write the logsumexp of each row of scores, ln(sum(exp(q K^T / sqrt(d)))), as float32 for each batch,
    head and query; -inf for a query that sees no key. One case only. Both files are complete before FILE gets its
    name, and then OUTPUT
  --q, --k, --v FILE  instead of INPUT: plain .npy files of float32 or float16, all of shape (B, heads, N, d) or all of
    (B, N, d). K and V may have fewer heads, a divisor, and another N; V may have another d
  --do FILE  dO as such a file, shaped as O: compute gradients
  --dq, --dk, --dv FILE  with --do, instead of OUTPUT: a file for each gradient. All are complete before any gets its
    name. Not with several ranks
  --pairs FILE  many cases, one a line: INPUT, blanks, OUTPUT. - is standard input. See hw4 help many
  --device auto|gpu|cpu  where to compute. auto, the default, takes the GPU, or says why it takes the CPU
  --gpus all|N  divide one case over all GPUs here, or over the first N; from two on INPUT and OUTPUT are plain files.
    CUDA_VISIBLE_DEVICES selects the GPUs
  --kernel NAME  use this GPU or CPU kernel; default: the best one for the case
  --kernel-file FILE  use a GPU kernel of your own in a shared library, see src/gpu/hw4_kernel.h. Check its results with
    judge --kernel-file
  --list-kernels  list the kernels of this build and their contracts; with --json after it as JSON, with the
    contracts, what each computes, and revisions
  --streams N  chunks on the GPU at a time, each in a CUDA stream: 1 to 16, default 4
  --copies 2d|linear  copy padded rows (2d, the default) or packed rows to the GPU
  --threads N  CPU threads, 1 to 1024; default: one for each processor
  --time  print how long each stage was busy, bytes, GB/s and memory
  --json FILE  write the same as JSON, and the CRC-32 of the numbers of OUTPUT and --lse; - is standard output. With
    many cases a list "cases" has each case, or the "exit_code" and "message" of a failed one
  --trace FILE  write what each thread and stream did when, for Perfetto or chrome://tracing; - is standard output
  --sync  return only when OUTPUT is safe on the disk
  --gather  with several ranks: only the first writes OUTPUT and --lse, the others send it their rows, a few MiB at a
    time. Every rank still reads INPUT or a copy of it
  -h, --help  a summary
  -V, --version  the version, revisions of the contracts, CUDA and GPU architectures
)");
}

std::string contract_topic() {
    std::string lines;
    for (const Contract* contract : contracts())
        lines += "  " + std::string(contract->name) + "  " + contract->idea +
                 (contract->most_columns > 0 ? "; d up to " + std::to_string(contract->most_columns) : "") +
                 (contract->compared == Compared::bound ? "; within a bound of float64" : "") + "\n";
    return laid_out(R"(A contract defines how the result is computed. Under f32, fixed and fixed16 the result has the
same bytes on every machine, with every kernel and any number of threads, streams, GPUs and ranks. Under bf16 and fp16
the error stays within a bound, and one machine gives the same bytes on every run. hw4 --version lists the revisions of
the contracts.

)" + lines + R"(
fixed and fixed16 have no backward pass. Under a causal mask they scale whole tiles of 64 and 128 keys: a key in a row's
last tile that the row does not see can still change the row's last bits.
)",
                    12);
}

std::string file_topic() {
    return laid_out(R"(INPUT is little-endian, plain or gzip, in one of three forms:

  version 1  int32 B, N, d; then for each batch Q, K, V of N x d float32 each, row by row; with --backward also dO
  version 2  16 int32: -2, operation (0 forward, 1 backward), mask (0 none, 1 causal), element (0 float32, 1 bf16,
    2 fp16), B, heads, key-value heads (a divisor of heads), N_q, N_k, d, d_v, window (0: none), scale (a float64 in the
    place of two int32; 0: 1/sqrt(d)), lengths (0 or 1), 0. With lengths 1 an int32 for each batch follows: how many of
    its N_k keys count. Then for each batch Q of heads x N_q x d numbers, K of key-value heads x N_k x d, V of key-value
    heads x N_k x d_v and, for backward, dO of heads x N_q x d_v
  .npy  NumPy's format version 1, '<f4' in C order, of shape (B, 3, N, d); or a file each for --q, --k and --v, '<f4'
    or '<f2'

OUTPUT is O, heads x N_q x d_v numbers for each batch without a header, or dQ, dK, dV of each batch. Its numbers have
the element of INPUT, rounded to nearest even. OUTPUT.gz is written as gzip. OUTPUT.npy, of float32 or fp16, is an
array of shape (B, N, d) or (B, heads, N_q, d); gradients, which must have one shape, have a 3 after the B. An .npy
file of --lse has the same shape without the d; its numbers are always float32.

hw4 writes OUTPUT under a temporary name beside OUTPUT and renames the complete file, with the permission bits of an
existing OUTPUT. A failed run leaves an existing OUTPUT as it was. A killed run (SIGKILL) may leave a file
OUTPUT.hw4-*.tmp. Where OUTPUT cannot be replaced, such as a mounted file, the result stays under the temporary name.

- is standard input or output, ./- a file of that name. Pipes and devices are written directly. A file named as
/dev/fd/N or /dev/stdout is replaced under its own name. Standard output is written in order, from where the file stands
or at its end (>>), and keeps what it got when a run fails; hw4's messages go to standard error then.
)",
                    13);
}

std::string many_topic() {
    return laid_out(R"(With several cases hw4 starts the GPU once, and reads the next case while it computes and writes
the one before. Name the cases as INPUT OUTPUT INPUT OUTPUT ..., or one a line in the file of --pairs: INPUT, blanks,
OUTPUT; or, for names with blanks, INPUT, one tab, OUTPUT. hw4 skips empty lines and lines that begin with #; OUTPUT
cannot be - there. hw4 takes each line as soon as it arrives: with --pairs - another program can keep one hw4 running
and send it cases.

Each OUTPUT gets its name as soon as it is complete. Then hw4 prints a line, in the order of the list: INPUT, a tab, the
sizes, a tab, "Time: 0.079 seconds". This is the time since the line before or, if later, since hw4 got the case. The
last line has the time of the run.

A failed case says so in one line on standard error, and the others go on; the exit code is that of the first failure.
Only an internal error ends the run, with a line for each known case that is left. An OUTPUT that is the INPUT or OUTPUT
of another case is wrong usage: on the command line hw4 then computes no case, in a list all others.
)");
}

std::string rank_topic() {
    return laid_out(R"(
  mpirun -np 4 build/hw4_mpi a.in a.out  after make hw4-mpi
  srun --mpi=pmix -n4 hw4 a.in a.out  under Slurm, after make MPI=yes

Several processes (ranks) compute one case, to the bytes of one process. Each rank reads, computes and writes a share,
on the GPU of its place on the machine or on the CPU. INPUT and OUTPUT are plain files, not gzip, that all ranks see;
without a common file system use --gather for OUTPUT. All ranks need the same arguments. They compare the sizes and
lengths of INPUT and 32 blocks of its numbers, and refuse an INPUT that differs (65).

Shares have equal cost: heads and rows of queries; in backward key-value heads or, where there are fewer of these than
ranks, rows of queries for dQ and of keys for dK and dV. Under bf16 and fp16 on the GPU backward divides key-value heads
alone, so some ranks may be idle. The first rank renames OUTPUT when all are done, and reports for all: if a rank fails,
all end with its message and exit code. --time, --json and --trace cover every rank. A build without MPI refuses to be
one of several tasks (64).
)",
                    42)
        .substr(1);
}

std::string exit_code_topic() {
    return laid_out(R"(  0  done
  64  wrong usage; OUTPUT is the INPUT file, or two outputs are one
  65  bad data: not a test case, wrong size, NaN or Inf, values so large that scores overflow, values outside the range
    of bf16 or fp16, d too large; a header that asks for what the contract or the program lacks; no kernel file
  66  INPUT, or the file of --kernel-file, cannot be opened
  69  no usable GPU, with --device gpu or a GPU kernel
  70  internal error: a CUDA call failed
  71  out of memory on the host or the GPU, or another program has the GPU
  73  OUTPUT cannot be created
  74  reading or writing failed; if only standard output did, OUTPUT is complete
  130, 143, 129  ended by SIGINT, SIGTERM, SIGHUP
)",
                    17);
}

struct Topic {
    const char* name;
    std::string (*text)();
};
constexpr Topic kTopics[] = {{"options", option_topic}, {"contracts", contract_topic}, {"files", file_topic},
                             {"many", many_topic},      {"ranks", rank_topic},         {"exit-codes", exit_code_topic}};

std::string all_topics() {
    std::string text = kUsage + laid_out(std::string(kWhatItIs) + "\nexamples:" + kExamples, 44);
    for (const Topic& topic : kTopics) text += "\n" + std::string(topic.name) + ":\n" + topic.text();
    return text;
}

} // namespace

std::string help_text() {
    std::string topics;
    for (const Topic& topic : kTopics) topics += std::string(topic.name) + ", ";
    return kUsage + laid_out(kWhatItIs + std::string(kExamples) + "\nwhat to compute:\n" +
                                 choice("--contract", contracts()) + R"(  default f32
  --causal, --window W, --scale X  a mask, a window, another scale
  --backward  gradients: INPUT has dO too
  --lse FILE  the logsumexp of each row too
files:
  --q, --k, --v, --do, --dq, --dk, --dv FILE  arrays of NumPy
  --pairs FILE  many cases, one a line
  --sync, --gather  safe on disk; one rank writes
where and how:
  --device auto|gpu|cpu, --gpus all|N  CPU, a GPU, or several
  --kernel NAME, --kernel-file FILE  another kernel, or your own
  --list-kernels [--json]  their names and ideas
  --streams N, --copies 2d|linear, --threads N
what it tells:
  --time, --json FILE, --trace FILE  times, memory, CRC-32, timeline
  -h, --help, -V, --version

exit codes: 0 done, 64 wrong usage, 65 bad data, 66 no INPUT, 69 no GPU, 70 internal error, 71 out of memory, 73 no
OUTPUT, 74 reading or writing failed. More in hw4 help TOPIC: )" +
                                 topics + "all, bench or train.\n",
                             46);
}

ExitCode run_help(int argc, char** argv, Ranks& ranks) {
    const std::string name = argc > 1 ? argv[1] : "";
    std::string text = name.empty() ? help_text() : name == "all" ? all_topics() : "";
    std::vector<std::string> names = {"all", "bench", "train"};
    for (const Topic& topic : kTopics) {
        if (name == topic.name) text = topic.text();
        names.emplace_back(topic.name);
    }
    agree(ranks, [&] {
        if (text.empty() || argc > 2) usage_error("no help on '" + name + "'" + did_you_mean(name, names));
    });
    if (ranks.is_first()) std::fputs(text.c_str(), stdout);
    agree(ranks, flush_standard_output);
    return ExitCode::ok;
}

} // namespace hw4
