#include "src/base/help_text.h"
#include "src/commands/bench_collectives.h"
#include "src/commands/bench_options.h"
#include "src/io/case_values.h"

namespace hw4::bench {
namespace {

// "  name  what it is", a line for each.
template <class Named>
std::string lines_of(const std::vector<Named>& list) {
    std::string lines;
    for (const Named& one : list) lines += "  " + std::string(one.name) + "  " + one.idea + "\n";
    return lines;
}

constexpr const char* kExitCodes = R"(
exit codes:
  0  done
  69  no cell ran, or there is no usable GPU
  70  a cell failed; all others were measured
  others  as hw4 help exit-codes
)";

// Options of allreduce and of step.
constexpr const char* kRanksOptions = R"(
  --output FILE.json  - is standard output. The file is complete after each row
  --quiet  no table
  -h, --help, -V, --version
)";

} // namespace

std::string help_text() {
    std::string kinds;
    for (const std::string& kind : case_kind_names()) kinds += " " + kind;
    return R"(usage: hw4 bench [options]
       hw4 bench accumulate|start-up|allreduce|step [--help]

)" + laid_out(R"(Times attention forward, backward and both as one, over sizes and
implementations, counts memory, and checks the result.

  hw4 bench --seq_len 1k --num_heads 32 --emb_dim 2048 --output r.json
  hw4 bench --seq_len 512,1k..16k*2 --impl hw4,fixed --relative-to naive
  hw4 bench --shape t28 --kernel all --passes forward
  hw4 bench --preset cs336-attention --output r.json
  python -m hw4.plot r.json -o r.svg  plots time, rate and memory
  judge/judge --compare old.json new.json  compares two files of --output

other measurements:
  accumulate  a small number added up 1000 times, in float32, fp16 and bf16
  start-up  what a process pays for the GPU before its work
  allreduce  a vector added up over the ranks of mpirun
  step  a training step: forward, backward, optimizer, and the sum of the ranks' gradients

what to measure: all combinations of these lists, such as 512,1k..16k*2 (lab5.py's names, with - for _ too):
  --batch_size N  default 32
  --seq_len N  tokens, default 1024
  --num_heads N  default 32
  --emb_dim N  columns of all heads together, a multiple of the heads, default 2048
  --causal[=yes|no|both]  with the causal mask
)" + choice("--impl", implementation_names()) +
              R"(  default hw4, which is f32. Upper case is the same. naive has all scores in memory, on a GPU by
    cuBLAS. python -m hw4.neighbours times hw4 beside PyTorch
  --dtype float32|fp16|bf16  default: the own type of bf16 and fp16, else float32. A GPU takes each type, but bf16 and
    fp16 take only their own, and backward of f32 only float32
  --kernel NAME|all  kernels of the device
  --warmup N  launches before the first sample; default: one and as many as fit in 0.1 s, or with --timing wall a
    hundredth of --repeats, at least 2
)" + choice("--preset", presets()) +
              R"(  these sizes, implementations and rules (below), unless other options say otherwise
  --passes forward|backward|forward_backward  default: all
one value each:
  --relative-to NAME  another column for each pass: how many times as fast as this implementation (or kernel of
    --kernel). It is measured too, first
  --shape B,N,d  instead of all sizes; also B,H,N,d, or a case of the course such as t28. May be repeated
  --kv_heads N  heads of K and V, a divisor of the others; default as many
  --decode[=N]  N new tokens, default 1, against seq_len keys: forward alone, how fast K and V are read, and the share
    of the GPU's memory rate. With --cold not from its cache
  --kernel-file FILE  one more kernel for the GPU (src/gpu/hw4_kernel.h); without --kernel, only this one
  --kind KIND  distribution of the numbers (below), as testcases/generate --seed 1 makes them; default normal:1
how:
  --device auto|gpu|cpu  default: the GPU if there is one
  --threads N  CPU threads, default: all processors
  --repeats N  samples, default 30, each of as many launches as take 10 ms; of one after --warmup
  --limit SECONDS  stop after 3 or more samples once a pass has taken so long; default 10
  --once  one launch of each cell, without warm-up, for a profiler
  --timing event|wall  a clock for each sample, CUDA events on a GPU; or, as lab5.py, the host's clock around all
    launches
  --cold  flush the caches before each sample, which is one launch then
  --scratch BYTES  GPU memory that a kernel may take to be faster, mostly backward; default 4G. The column scratch says
    how much it took
  --memory_limit BYTES  as if the GPU had no more: 8G, 512M
results:
  --output FILE.json  lab5.py's fields unchanged (time(s) is the mean, MB are MiB), null where nothing was
    measured, and one more, "hw4": samples, kernel, memory, error against float64 on sampled rows, CRC-32 of the output,
    whether sampled rows have the bytes of the contract's reference. With several cells a list, "results". - is standard
    output. The file is complete after each cell
  --csv FILE  the table
  --memory FILE.pickle  what one more run of each pass allocates, and what for, as a snapshot of PyTorch for
    pytorch.org/memory_viz
  --quiet  no table, no progress; one line says why if no cell ran or a cell failed
  -h, --help, -V, --version

presets:
)" + lines_of(presets()) +
              "\nkinds:" + kinds + R"(

The columns peak, before bwd (in use when backward begins) and scratch are MiB. A cell that cannot run has a status: oom
with the bytes wanted and free, unsupported or failed with the reason. FLOP are lab5.py's: 4 B H N^2 d forward, half of
it if causal, 2.5 times that backward; with --decode 4 B H n N d for n tokens. A CRC-32 is that of hw4's own output for
the file that testcases/generate writes for the same numbers.
)" + kExitCodes);
}

std::string accumulate_help() {
    return R"(usage: hw4 bench accumulate [options]

Adds up 0.01 a thousand times in float32, fp16 and bf16, narrow numbers in
float32 too, and in chains of 32 and 64 as the contracts of hw4 do; beside the
exact sums.

  --device auto|gpu|cpu   default: the GPU if there is one
  --output FILE.json      - is standard output
  -h, --help, -V, --version
)";
}

std::string start_up_help() {
    return R"(usage: hw4 bench start-up

Milliseconds that a process pays for the GPU before its work, step by step.
)";
}

std::string allreduce_help() {
    return R"(usage: hw4 bench allreduce [options]                            one rank
       mpirun -np N build/hw4_mpi bench allreduce [options]     make hw4-mpi

)" + laid_out(R"(Adds up a vector of float32 over the ranks and checks the sums. The columns are as
in nccl-tests: algbw is the vector's bytes over the time of the slowest rank, busbw 2 (n - 1) / n of that for n
ranks. One rank has no bandwidth.
Several ranks need a build with MPI: make hw4-mpi or make MPI=yes.

  --sizes BYTES  a list, default 1m..1g*10; k, m and g are powers of 1024
  --via mpi|nccl|ordered  a list. mpi, the default, is its all-reduce; nccl needs libnccl.so.2; ordered adds in an order
    that does not depend on the number of ranks, and so gives the same bytes for each
  --device auto|gpu|cpu  default: GPUs if each rank has one. A rank uses the GPU of its place on the machine; rows say
    where ranks share one
  --warmup N  default 5
  --repeats N  default 20
  --limit SECONDS  stop after 3 or more repeats once they have taken so long; default 10)" +
              std::string(kRanksOptions) + kExitCodes);
}

std::string step_help() {
    return R"(usage: hw4 bench step [options]
       mpirun -np N build/hw4_mpi bench step [options]     make hw4-mpi

)" + laid_out(R"(Times a training step of hw4 train: forward, backward, the optimizer and, with several ranks, the sum of
their gradients, in the order that gives the bytes of one rank. A row has the mean and standard deviation, tokens/s,
GFLOP/s, on a GPU their share of what its float32 units can do (under bf16 its tensor cores, where their rate is known),
a rank's peak memory, each phase's time and calls by operation, and the most memory in use. comm % is the share of a
step that is neither forward, backward nor optimizer; it includes the time that ranks wait for one another. The JSON
file also has the peaks after the start and before the optimizer, and the CRC-32 of the parameters after the last step.
This CRC-32 is the same for all --ways, with and without --shard, and for any number of ranks, under bf16 with the same
micro-batch.

hw4 takes all memory before the first step, so its peak is what every step needs. Memory in use is what a framework
holds that allocates each tensor separately: a tensor from the operation that writes it to the last one that reads it,
in the order of hw4's operations, and hw4's scratch memory. Forward alone keeps nothing for backward, as under
torch.no_grad().

  hw4 bench step --model tiny --warmup 1 --repeats 3 --output step.json
  hw4 bench step --preset cs336-memory --memory m.pickle

)" + choice("--model", step::presets()) +
              R"(  a list, default small. hw4 train --help has their sizes
  --contract f32|bf16  a list, default f32; hw4 train --help says what they are
  --seq_len N  a list, default the model's context
  --batch_size N  sequences of all ranks together, default 4
  --micro_batch N  sequences that a rank computes at a time, a power of two; default: all of its own
  --attention ours|naive  a list, default ours. naive has all scores in memory and keeps the weights of every layer for
    backward, in float32, on a GPU by cuBLAS; parameters have other bytes then
  --preset NAME  options for a table of the course (below), which other options replace
  --ways naive|flat|bucketed|overlapped  with several ranks, a list: one call a tensor; one call; one call a bucket of
    neighbouring tensors; the same while backward goes on. Default: all
  --buckets BYTES  sizes of buckets, a list, default 1m..1g*10
  --shard[=yes|no|both]  each rank keeps only its share of AdamW's m and v (ZeRO-1)
  --operations  time every operation of a step alone, not whole steps, on a GPU in float32: the median, its calls in a
    step, and the ratio to a yardstick, where 1 is as fast: to cuBLAS's SGEMM for a matrix product, to a copy on the GPU
    that reads and writes as many bytes for the others. embed and embed_back include their copies from the host. One
    warm-up and 3 steps, unless later options say otherwise
  --one_rank  with several ranks, also time the whole batch on the first rank alone; the other rows say how many times
    as many tokens/s they have
  --threads N  of a rank; default: ranks share the processors
  --device auto|gpu|cpu  auto, the default, takes the CPU; gpu takes GPUs of compute capability 8.0 or later, which
    ranks may share
  --warmup N  steps before the first that counts: a list, default 5
  --repeats N  steps, default 10
  --limit SECONDS  stop after 3 or more steps once they have taken so long; default 60)" +
              R"(
  --memory FILE.pickle  the memory in use of a forward alone and of a step, on the first rank, as a snapshot of PyTorch
    for pytorch.org/memory_viz: a tensor is named by the operation that writes it)" +
              std::string(kRanksOptions) + "\npresets:\n" + lines_of(step_presets()) + kExitCodes);
}

} // namespace hw4::bench
