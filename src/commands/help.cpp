#include "src/commands/options.h"

namespace hw4 {

std::string help_text() {
    const std::string what =
        "usage: hw4 [options] INPUT OUTPUT [INPUT OUTPUT ...]\n"
        "       hw4 [options] --pairs FILE\n"
        "       hw4 --list-kernels [--json]\n"
        "       hw4 bench [options]                   times and memory over sizes; hw4 bench --help\n"
        "\n"
        "Attention, O = softmax(Q K^T / sqrt(d)) V, or the gradients of sum(O * dO), from file to file, on the GPU\n"
        "or the CPU, with the bytes of the sequential program seq on both.\n"
        "\n"
        "  hw4 t28.in t28.out                    the GPU if there is one, otherwise the CPU\n"
        "  hw4 --device cpu --threads 4 a.in a.out\n"
        "  hw4 --time --json run.json a.in a.out\n"
        "  hw4 a.in a.out b.in b.out             two cases, and one start of the GPU for both\n"
        "  gunzip < a.in.gz | hw4 - - > a.out    - is standard input and output, ./- a file of that name\n"
        "\n"
        "INPUT is little-endian: int32 B, N, d, then for each batch float32 Q, K, V of N x d each, row by row; or,\n"
        "with heads, two lengths and a mask, int32 -2, operation 0 (forward) or 1 (backward), mask 0 (none) or 1\n"
        "(causal), element 0 (float32), 1 (bf16) or 2 (fp16), B, heads, key-value heads, N_q, N_k, d, d and five\n"
        "zeros, then for each batch Q of heads x N_q x d, K and V of key-value heads x N_k x d, and of backward dO,\n"
        "shaped as Q, in numbers of the element. bf16 and fp16 are widened exactly to float32.\n"
        "Plain or gzip; or NumPy's .npy, version 1, '<f4' in C order, shape (B, 3, N, d). OUTPUT is O, shaped as Q,\n"
        "of the same element, rounded to nearest even; of backward dQ, dK, dV of each batch. OUTPUT.gz is written\n"
        "as gzip, OUTPUT.npy, of float32, as an array of shape (B, N, d), or (B, heads, N_q, d), not of backward; so\n"
        "is --lse, without the d, float32 whatever the element is. OUTPUT is written under a temporary name beside\n"
        "OUTPUT and renamed when complete, so a failed run leaves an existing OUTPUT as it was. What a killed run\n"
        "leaves behind, a file OUTPUT.hw4-*.tmp, is removed by the next run for the same OUTPUT. A file that is a\n"
        "mount point of its own cannot be replaced: the complete result is copied into it at the end. Rights and\n"
        "access lists of an old OUTPUT are kept. Pipes and devices are written as they are; a\n"
        "file named as /dev/fd/N or /dev/stdout is replaced under its name. Standard output, -, is written in order,\n"
        "to a file from where it stands or at its end (>>), and keeps what it got when a run fails. What hw4 prints\n"
        "goes to standard error then.\n"
        "\n"
        "Of many cases each is read while the one before is computed and written, and each OUTPUT gets its name as\n"
        "soon as it is complete. Then standard output has a line, in the order of the list: INPUT, a tab, the sizes,\n"
        "a tab, \"Time: 0.079 seconds\", since the line before or, where that is later, since the case was there; at\n"
        "the end one with the time of the run. A case that fails says so in one line on standard error, and the\n"
        "others go on; the exit code is that of the first that failed. Only an internal error ends the run: of\n"
        "every case after it that is known a line says so. An OUTPUT that is INPUT or OUTPUT of another case is\n"
        "wrong usage: on the command line no case is computed then, in a list not that one.\n"
        "\n";
    std::string contract_lines;
    for (const Contract* contract : contracts())
        contract_lines += "                            " + std::string(contract->name) + ": " + contract->idea +
                          (contract->most_columns > 0 ? ", d up to " + std::to_string(contract->most_columns) : "") +
                          "\n";
    const std::string options =
        "options:\n"
        "  --contract NAME         what the bytes follow, " +
        contract_names() + "; default " + contracts()[0]->name + "; --arith means the same\n" + contract_lines +
        "  --causal                under the causal mask whatever INPUT asks for: query i sees the keys 0 to\n"
        "                          i + N_k - N_q, and no others exist for it; where there is none its row of O is 0.\n"
        "                          fixed scales whole tiles of 64 keys, fixed16 of 128: what follows in a row's last\n"
        "                          one shows there\n"
        "  --backward              INPUT that begins with B, N, d has Q, K, V, dO for each batch, and OUTPUT gets dQ,\n"
        "                          dK, dV; INPUT with the other header must ask for that itself. Under f32 only\n"
        "  --lse FILE              of one case: write the logsumexp of each row of scores too, ln(sum(exp(q K^T /\n"
        "                          sqrt(d)))), as float32 for each batch, head and query; -inf for a query that sees\n"
        "                          no key. FILE is written as OUTPUT is. Both are complete before either gets its\n"
        "                          name, FILE first: beside a new OUTPUT it is new, whatever fails in between\n"
        "  --device auto|gpu|cpu   where to compute; auto (the default) says why when it takes the CPU\n"
        "  --kernel NAME           a certain kernel, GPU or CPU; default: the best for the case\n"
        "  --kernel-file FILE      a GPU kernel of your own, in a shared library: src/gpu/hw4_kernel.h. Nobody checks\n"
        "                          what it computes but judge --kernel-file\n"
        "  --list-kernels          the kernels of this build and the contract of each; with --json after it, as\n"
        "                          JSON, with the contracts, their revisions and the operations\n"
        "  --streams N             chunks on the GPU at once, each in a CUDA stream, 1 to 16, default 4\n"
        "  --copies 2d|linear      padded rows and 2-D copies, or packed rows and flat copies; default 2d\n"
        "  --threads N             CPU threads, 1 to 1024, default: all processors\n"
        "  --time                  print how long each stage was busy, bytes and GB/s, memory\n"
        "  --json FILE             write the same as JSON to FILE (- is standard output), and the CRC-32 of\n"
        "                          the numbers of OUTPUT and --lse, whose time counts as writing; of many cases with\n"
        "                          a list \"cases\" of what each was, or of its \"exit_code\" and \"message\"\n"
        "  --trace FILE            write when each thread and stream did what, for Perfetto or chrome://tracing;\n"
        "                          - as for --json\n"
        "  --pairs FILE            many cases: a line of FILE, or of standard input where it is -, for each, taken as\n"
        "                          soon as it is there: INPUT, blanks, OUTPUT; or, for names with blanks, INPUT, one\n"
        "                          tab, OUTPUT, which cannot be -. Empty lines and lines that begin with # are "
        "skipped\n"
        "  --sync                  return only when OUTPUT is safe on the disk\n"
        "  -h, --help, -V, --version\n"
        "\n";
    return what + options +
           "exit codes:\n"
           "   0  done\n"
           "   1  bench compare: something is slower\n"
           "  64  wrong usage, OUTPUT is the INPUT file, or two outputs are one\n"
           "  65  bad data: not a test case, wrong size, NaN or Inf, numbers whose scores overflow, d too large,\n"
           "      or a header that asks for what the contract or this program lacks; a kernel file that is none\n"
           "  66  INPUT, or the file of --kernel-file, cannot be opened\n"
           "  69  no usable GPU (with --device gpu, or a GPU kernel asked for)\n"
           "  70  internal error: a CUDA call failed\n"
           "  71  out of memory, on the host or the GPU, or the GPU is another program's\n"
           "  73  OUTPUT cannot be created\n"
           "  74  reading or writing failed; if only standard output did, OUTPUT is complete\n"
           " 130, 143, 129  ended by SIGINT, SIGTERM, SIGHUP\n";
}

} // namespace hw4
