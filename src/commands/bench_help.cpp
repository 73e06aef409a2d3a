#include "src/commands/bench_collectives.h"
#include "src/commands/bench_options.h"

namespace hw4::bench {
namespace {

// A line for each: "                            name   description".
template <class Named>
std::string lines_of(const std::vector<Named>& list, size_t width) {
    std::string lines;
    for (const Named& one : list) {
        const std::string name = one.name;
        lines += std::string(28, ' ') + name + std::string(name.size() < width ? width - name.size() : 1, ' ') +
                 one.idea + "\n";
    }
    return lines;
}

constexpr const char* kExitCodes = "\n"
                                   "exit codes: those of hw4, and\n"
                                   "  69  no cell ran, or there is no usable GPU\n"
                                   "  70  a cell failed; all others were measured\n";

// Options of allreduce and of step.
constexpr const char* kRanksOptions =
    "  --output FILE.json      - is standard output. The file is complete after each row\n"
    "  --quiet                 no table\n"
    "  -h, --help, -V, --version\n";

} // namespace

std::string help_text() {
    std::string impls;
    for (const std::string& name : implementation_names()) impls += (impls.empty() ? "" : ", ") + name;
    return "usage: hw4 bench [options]\n"
           "       hw4 bench accumulate|start-up|allreduce|step [--help]\n"
           "\n"
           "Times attention forward, backward and both as one, over sizes and implementations, counts memory, and\n"
           "checks the result.\n"
           "\n"
           "  hw4 bench --batch_size 16 --seq_len 1k --num_heads 32 --emb_dim 2048 --causal --output r.json\n"
           "  hw4 bench --seq_len 512,1k..16k*2 --impl hw4,fixed --relative-to naive --csv r.csv\n"
           "  hw4 bench --shape t28 --kernel all --passes forward\n"
           "  hw4 bench --preset cs336-attention --output r.json\n"
           "  python -m hw4.plot r.json -o r.svg      time, rate and memory over a size\n"
           "  judge/judge --compare old.json new.json two files of --output; --changed: only what has changed\n"
           "\n"
           "other measurements, each with a --help of its own:\n"
           "  accumulate              a small number added up 1000 times, in float32, fp16 and bf16\n"
           "  start-up                what a process pays for the GPU before its work\n"
           "  allreduce               a vector added up over the ranks of mpirun\n"
           "  step                    a training step: forward, backward, optimizer, and the ranks' gradients\n"
           "\n"
           "what is measured; each takes a list, 512,1k..16k*2 among numbers, and all combinations are\n"
           "measured (lab5.py's names, with - for _ too):\n"
           "  --batch_size N          default 32\n"
           "  --seq_len N             tokens, default 1024\n"
           "  --num_heads N           default 32\n"
           "  --emb_dim N             columns of all heads together, a multiple of them, default 2048\n"
           "  --causal[=yes|no|both]  with the causal mask\n"
           "  --impl NAME             " +
           impls +
           ",\n"
           "                          whatever their case; default hw4, which is f32. naive has all scores in memory,\n"
           "                          on a GPU by cuBLAS. python -m hw4.neighbours times hw4 beside PyTorch\n"
           "  --dtype NAME            float32, fp16, bf16; default: their own type for bf16 and fp16, float32 for\n"
           "                          all others. A GPU takes each type, but bf16 and fp16 take their own alone,\n"
           "                          and f32's backward takes float32\n"
           "  --kernel NAME           a kernel of the device by its name, or all of them\n"
           "  --warmup N              launches before the first sample; default: one and those of 0.1 s, or with\n"
           "                          --timing wall a hundredth of --repeats, at least 2\n"
           "  --preset NAME           these sizes, implementations and rules, unless other options say otherwise:\n" +
           lines_of(presets(), 16) +
           "  --passes NAME           forward, backward, forward_backward; default: all\n"
           "with one value, not a list:\n"
           "  --relative-to NAME      one more column for each pass: how many times as fast as this implementation\n"
           "                          (or kernel of --kernel), which is measured too, before the others\n"
           "  --shape B,N,d           in the place of all sizes; also B,H,N,d, or a case of the course such as t28.\n"
           "                          May be repeated\n"
           "  --kv_heads N            heads of K and V, which divide the others; default as many\n"
           "  --decode[=N]            N new tokens, default 1, against seq_len keys: forward alone, how fast K and V\n"
           "                          are read, and the share of the GPU's memory rate. --cold: not from its cache\n"
           "  --kernel-file FILE      one more kernel for the GPU (src/gpu/hw4_kernel.h); without --kernel it alone\n"
           "  --kind KIND             of the numbers, as testcases/generate has them with --seed 1; default normal:1\n"
           "\n"
           "how:\n"
           "  --device auto|gpu|cpu   default: the GPU if there is one\n"
           "  --threads N             of the CPU, default: all processors\n"
           "  --repeats N             samples, default 30, of as many launches as last 10 ms; of one after --warmup\n"
           "  --limit SECONDS         fewer, from 3 on, once a pass has taken so long; default 10\n"
           "  --once                  one launch of each cell, without warm-up, for a profiler\n"
           "  --timing event|wall     a clock for each sample, CUDA events on a GPU; or the host's around all\n"
           "                          launches, as lab5.py has it\n"
           "  --cold                  flush the caches before each sample, which is one launch then\n"
           "  --scratch BYTES         what a kernel may take of the GPU's memory to be faster, backward above all;\n"
           "                          default 4G. The column scratch says how much it took\n"
           "  --memory_limit BYTES    as if there were no more: 8G, 512M\n"
           "\n"
           "results:\n"
           "  the table               peak, before bwd (in use when backward begins) and scratch are MiB\n"
           "  --output FILE.json      lab5.py's fields unchanged (time(s) is the mean, in MB are MiB), null where\n"
           "                          nothing was measured, and one more, hw4: samples, kernel, memory, error against\n"
           "                          float64 on sampled rows, CRC-32 of the output, whether sampled rows have the\n"
           "                          bytes of the contract's reference. With several cells a list, results. - is\n"
           "                          standard output. The file is complete after each cell\n"
           "  --csv FILE\n"
           "  --memory FILE.pickle    what one more run of each pass takes and gives back, and what for, as PyTorch's\n"
           "                          snapshots have it, for pytorch.org/memory_viz\n"
           "  --quiet                 no table, no progress; one line says why if no cell ran or a cell failed\n"
           "  -h, --help, -V, --version\n"
           "\n"
           "A cell that cannot run has a status: oom with the bytes wanted and free, unsupported or failed with the\n"
           "reason. FLOP are lab5.py's: 4 B H N^2 d forward, half of it if causal, 2.5 times that backward; with\n"
           "--decode 4 B H n N d for n tokens. A CRC-32 is that of hw4's own output for the file that\n"
           "testcases/generate writes for the same numbers.\n" +
           kExitCodes;
}

std::string accumulate_help() {
    return "usage: hw4 bench accumulate [--device auto|gpu|cpu] [--output FILE.json]\n"
           "\n"
           "Adds up 0.01 a thousand times in float32, fp16 and bf16, narrow numbers in float32 too, and in chains of\n"
           "32 and 64, as the contracts of hw4 add; beside the exact sums.\n";
}

std::string start_up_help() {
    return "usage: hw4 bench start-up\n"
           "\n"
           "Milliseconds that a process pays for the GPU before its work, step by step.\n";
}

std::string allreduce_help() {
    return "usage: mpirun -np N build/hw4_mpi bench allreduce [options]    (make hw4-mpi; or an hw4 of make MPI=yes)\n"
           "       hw4 bench allreduce [options]                           one rank\n"
           "\n"
           "Adds up a vector of float32 over the ranks and checks the sums. The columns are those of nccl-tests: "
           "algbw\n"
           "is the vector's bytes over the time of the slowest rank, busbw 2 (n - 1) / n of that for n ranks. One "
           "rank\n"
           "has no bandwidth.\n"
           "\n"
           "  --sizes BYTES           a list, default 1m..1g*10; k, m and g are powers of 1024\n"
           "  --via NAME              a list of mpi, its all-reduce, the default; nccl, where libnccl.so.2 is found;\n"
           "                          ordered, in an order that does not depend on the number of ranks, nor do its\n"
           "                          bytes\n"
           "  --device auto|gpu|cpu   default: GPUs if each rank has one. A rank uses the GPU of its place on the\n"
           "                          machine; rows say where ranks share one\n"
           "  --warmup N              default 5\n"
           "  --repeats N             default 20\n"
           "  --limit SECONDS         fewer repeats, from 3 on, once they have taken so long; default 10\n" +
           std::string(kRanksOptions) + kExitCodes;
}

std::string step_help() {
    std::string models;
    for (const step::Preset& model : step::presets()) models += (models.empty() ? "" : ", ") + std::string(model.name);
    return "usage: hw4 bench step [options]\n"
           "       mpirun -np N build/hw4_mpi bench step [options]    (make hw4-mpi; or an hw4 of make MPI=yes)\n"
           "\n"
           "Times a training step, which is that of hw4 train: forward, backward, optimizer, and what several ranks\n"
           "need to add up their gradients, in the order that gives the bytes of one rank. All in float32.\n"
           "A row has mean and standard deviation, tokens/s, GFLOP/s and, on a GPU, their share of what its float32\n"
           "units can do, the peak memory of a rank (the JSON file has that of a forward pass alone, too), and the\n"
           "share of the time that each operation takes. comm % is the share of a step that is neither forward,\n"
           "backward nor optimizer; it includes the time that ranks wait for one another.\n"
           "\n"
           "  --model NAME            a list of " +
           models +
           "; default\n"
           "                          small. hw4 train --help has their sizes\n"
           "  --seq_len N             a list, default the model's context\n"
           "  --batch_size N          sequences of all ranks together, default 4\n"
           "  --micro_batch N         sequences that a rank computes at a time, a power of two; default: all of its\n"
           "  --preset NAME           a model, contexts and warm-ups, unless other options say otherwise:\n" +
           lines_of(step_presets(), 16) +
           "  --ways NAME             with several ranks a list of naive, a call a tensor; flat, one call; bucketed,\n"
           "                          calls of neighbouring tensors; overlapped, the same while backward goes on;\n"
           "                          default: all\n"
           "  --buckets BYTES         of bucketed and overlapped, a list, default 1m..1g*10\n"
           "  --shard                 each rank keeps its share of AdamW's m and v alone (ZeRO-1)\n"
           "  --threads N             of a rank; default: ranks share the processors\n"
           "  --device auto|gpu|cpu   auto, the default, takes the CPU; gpu takes GPUs of compute capability 8.0 or\n"
           "                          later, which ranks may share\n"
           "  --warmup N              steps before the first that counts: a list, default 5\n"
           "  --repeats N             steps, default 10\n"
           "  --limit SECONDS         fewer, from 3 on, once they have taken so long; default 60\n" +
           std::string(kRanksOptions) + kExitCodes;
}

} // namespace hw4::bench
