#include "src/bench/gradients.h"
#include "src/commands/bench_options.h"

namespace hw4::bench {

std::string help_text() {
    std::string impls;
    for (const std::string& name : implementation_names()) impls += (impls.empty() ? "" : ", ") + name;
    std::string preset_lines;
    for (const Preset& preset : presets()) {
        const std::string name = preset.name;
        preset_lines += "                            " + name +
                        std::string(name.size() < 16 ? 16 - name.size() : 1, ' ') + preset.idea + "\n";
    }
    std::string model_lines;
    for (const Model& model : models()) {
        const std::string name = model.name;
        model_lines += "                            " + name +
                       std::string(name.size() < 10 ? 10 - name.size() : 1, ' ') + model.idea + "\n";
    }
    return "usage: hw4 bench [options]\n"
           "       hw4 bench accumulate [--count N] [--term X] [--device auto|gpu|cpu] [--output FILE.json]\n"
           "       hw4 bench start-up\n"
           "       mpirun -np N hw4 bench allreduce [options of allreduce]\n"
           "       mpirun -np N hw4 bench gradients [options of gradients]\n"
           "\n"
           "Times attention forward, backward and both as one, over sizes and implementations, counts memory, and\n"
           "checks the result.\n"
           "\n"
           "  hw4 bench --batch_size 16 --seq_len 1k --num_heads 32 --emb_dim 2048 --causal --output r.json\n"
           "  hw4 bench --seq_len 512,1k..16k*2 --impl naive,hw4 --csv r.csv\n"
           "  hw4 bench --shape t28 --kernel all --passes forward\n"
           "  hw4 bench --preset cs336-attention --output r.json\n"
           "\n"
           "what is measured; each takes a list, 512,1k..16k*2 or 1..9+2 among numbers, and all combinations are\n"
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
           preset_lines +
           "  --passes NAME           forward, backward, forward_backward; default: all\n"
           "with one value, not a list:\n"
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
           "  --scratch BYTES         of the GPU's memory for what only makes a kernel faster; default 4G\n"
           "  --memory_limit BYTES    as if there were no more: 8G, 512M\n"
           "\n"
           "results:\n"
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
           "testcases/generate writes for the same numbers.\n"
           "\n"
           "judge/judge --compare OLD NEW compares two files of --output.\n"
           "\n"
           "accumulate: N times X, default 1000 and 0.01, added up in float32, fp16 and bf16, narrow numbers in\n"
           "float32, and in chains of 32 and 64, as the contracts of hw4 add; beside the exact sums.\n"
           "\n"
           "start-up: milliseconds that a process pays for the GPU before its work, step by step.\n"
           "\n"
           "allreduce: a vector of float32 added up over ranks, in the columns of nccl-tests: algbw is its bytes over\n"
           "the time of the slowest rank, busbw 2 (n - 1) / n of that; sums are checked. gradients: the gradients of\n"
           "a transformer added up over ranks after or during a backward pass of f32's kernels, a launch a layer. A\n"
           "rank uses the GPU of its place on the machine; rows say where ranks share one. Without mpirun there is\n"
           "one rank.\n"
           "  --sizes BYTES           of allreduce: a list, default 1m..1g*10; k, m and g are powers of 1024\n"
           "  --model NAME            of gradients: a list of\n" +
           model_lines +
           "  --ways NAME             of gradients: naive, a call a tensor; flat, one call; overlapped, buckets while\n"
           "                          backward goes on; default: all. Backward alone comes first\n"
           "  --buckets BYTES         of gradients: a list, default 1m..1g*10\n"
           "  --batch_size N, --seq_len N, --threads N\n"
           "                          of gradients: of a rank's attention, default 8 and 512, causal; ranks share the\n"
           "                          processors\n"
           "  --via NAME              mpi, its all-reduce, the default; nccl, where libnccl.so.2 is found; ordered,\n"
           "                          in an order that does not depend on the number of ranks, nor do its bytes\n"
           "  --contributions N       that are added up, default 8: ranks have N / n each, and no fewer than one\n"
           "  --warmup N, --repeats N, --limit SECONDS, --device, --output, --quiet\n"
           "                          default 5, 20 and 10 s; as above\n"
           "\n"
           "exit codes: those of hw4, and\n"
           "  69  no cell ran, or there is no usable GPU\n"
           "  70  a cell failed; all others were measured\n";
}

} // namespace hw4::bench
