"""Times a training step of hw4 train's models in PyTorch on one GPU, and hw4's step beside it:

    python -m hw4.step --models small medium --hw4 ./hw4 --json steps.json     # or python3 python/hw4/step.py

Both have the same model, batch, context, AdamW (PyTorch's fused one) and clipping; float32 without TF32, and bf16 by
autocast, beside hw4's contract of the same name. compiled: torch.compile of the whole model. CUDA events divide
a step into forward with the loss, backward, and clipping with AdamW. hw4 runs in its own process before and after each
of PyTorch's rows, so that neither has a cooler GPU: ratio is PyTorch's mean over the mean of both runs.
"""
import argparse
import contextlib
import json
import statistics
import subprocess
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    sys.exit(f"step: needs PyTorch 2.4 or later: {error}")

MODELS = {  # width, hidden, layers, heads, vocabulary, as hw4 train --help has them
    "small": (768, 3072, 12, 12, 10000), "medium": (1024, 4096, 24, 16, 10000), "large": (1280, 5120, 36, 20, 10000),
    "xl": (1600, 6400, 48, 25, 10000), "2.7B": (2560, 10240, 32, 32, 10000), "71m": (512, 1408, 12, 8, 32000),
    "tiny": (64, 256, 2, 4, 256)}
PRECISIONS = {"f32": contextlib.nullcontext, "bf16": lambda: torch.autocast("cuda", torch.bfloat16)}
PHASES = ("forward", "backward", "optimizer", "step")


def normalized(x, gain):
    return F.rms_norm(x, gain.shape, gain, 1e-5)


def rotated(x, cosine, sine):
    a, b = x[..., 0::2], x[..., 1::2]
    turned = a * cosine - b * sine, a * sine + b * cosine
    return torch.stack(turned, -1).flatten(-2).to(x.dtype)


def layer(x, cosine, sine, heads, attention_norm, qkv, output, feed_norm, gate_up, down):
    q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2)
               for part in F.linear(normalized(x, attention_norm), qkv).chunk(3, -1))
    o = F.scaled_dot_product_attention(rotated(q, cosine, sine), rotated(k, cosine, sine), v, is_causal=True)
    x = x + F.linear(o.transpose(1, 2).flatten(-2), output)
    gate, up = F.linear(normalized(x, feed_norm), gate_up).chunk(2, -1)
    return x + F.linear(F.silu(gate) * up, down)


def loss(x, norm, head, targets):
    logits = F.linear(normalized(x, norm), head)
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class Model(torch.nn.Module):
    """The transformer of hw4 train: pre-norm, RMSNorm, RoPE on neighbouring columns, SwiGLU, an untied head."""

    def __init__(self, width, hidden, layers, heads, vocabulary, context):
        super().__init__()
        self.heads = heads

        def parameter(*shape):
            return torch.nn.Parameter(torch.ones(shape) if len(shape) == 1
                                      else torch.randn(shape) * (2 / sum(shape)) ** 0.5)

        self.embedding, self.head = parameter(vocabulary, width), parameter(vocabulary, width)
        self.norm = parameter(width)
        self.layers = torch.nn.ModuleList(torch.nn.ParameterDict({
            "attention_norm": parameter(width), "qkv": parameter(3 * width, width), "output": parameter(width, width),
            "feed_norm": parameter(width), "gate_up": parameter(2 * hidden, width), "down": parameter(width, hidden)})
            for _ in range(layers))
        columns = width // heads
        frequencies = 10000.0 ** (-torch.arange(0, columns, 2, dtype=torch.float64) / columns)
        angles = torch.arange(context, dtype=torch.float64)[:, None] * frequencies
        self.register_buffer("cosine", angles.cos().float())
        self.register_buffer("sine", angles.sin().float())

    def forward(self, inputs, targets):
        x = F.embedding(inputs, self.embedding)
        for weights in self.layers:
            x = layer(x, self.cosine, self.sine, self.heads, **weights)
        return loss(x, self.norm, self.head, targets)


def timed_steps(args, name, way, precision):
    """Milliseconds of each phase of each step after the warm-up, and the peak memory in GiB."""
    sizes = MODELS[name]
    torch.manual_seed(1)
    torch.cuda.reset_peak_memory_stats()
    model = Model(*sizes, args.context).cuda()
    run = torch.compile(model) if way == "compiled" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    inputs, targets = torch.randint(sizes[-1], (2, args.batch, args.context), device="cuda")
    rows = []
    for step in range(args.warmup + args.repeats):
        marks = [torch.cuda.Event(enable_timing=True) for _ in PHASES]
        torch.cuda.synchronize()
        marks[0].record()
        with PRECISIONS[precision]():
            value = run(inputs, targets)
        marks[1].record()
        value.backward()
        marks[2].record()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        marks[3].record()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        if step >= args.warmup:
            rows.append([*(begin.elapsed_time(end) for begin, end in zip(marks, marks[1:])),
                         marks[0].elapsed_time(marks[3])])
    return dict(zip(PHASES, map(list, zip(*rows)))), torch.cuda.max_memory_allocated() / 2**30


def hw4_steps(args, name, precision):
    """The same for hw4 bench step. Exits where hw4 fails, which has printed the reason."""
    done = subprocess.run(
        [args.hw4, "bench", "step", "--device", "gpu", "--model", name, "--contract", precision, "--batch_size",
         str(args.batch), "--seq_len", str(args.context), "--warmup", str(args.warmup), "--repeats", str(args.repeats),
         "--quiet", "--output", "-"],
        stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    row = json.loads(done.stdout)["results"][0]
    return {phase: [1e3 * seconds for seconds in row[phase]["samples"]] for phase in PHASES}, row["peak_bytes"] / 2**30


def line_of(model, program, precision, times, gibibytes, ratio=None):
    columns = "".join(f"  {statistics.mean(times[phase]):8.2f} +-{statistics.pstdev(times[phase]):5.2f}"
                      for phase in PHASES)
    return f"{model:8} {program:9} {precision:5}{columns}  {gibibytes:6.2f}{f'  {ratio:6.3f}' if ratio else ''}"


def rows_of(args):
    for name in args.models:
        for precision in args.precisions:
            before = hw4_steps(args, name, precision) if args.hw4 else None
            for way in args.ways:
                torch.compiler.reset()
                times, gibibytes = timed_steps(args, name, way, precision)
                torch.cuda.empty_cache()
                row = {"model": name, "program": way, "precision": precision, "milliseconds": times,
                       "peak_gib": gibibytes}
                if args.hw4:
                    after = hw4_steps(args, name, precision)
                    ours = statistics.mean(before[0]["step"] + after[0]["step"])
                    row |= {"hw4_milliseconds": [before[0], after[0]], "ratio": statistics.mean(times["step"]) / ours}
                    print(line_of(name, "hw4", precision, *after))
                    before = after
                print(line_of(name, way, precision, times, gibibytes, row.get("ratio")), flush=True)
                yield row


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m hw4.step", usage="%(prog)s [options]", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=("small",))
    parser.add_argument("--ways", nargs="+", choices=("eager", "compiled"), default=("eager", "compiled"))
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=tuple(PRECISIONS))
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--hw4", metavar="PROGRAM", help="hw4 of a build with CUDA; without it PyTorch alone is timed")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args(argv)
    if not torch.cuda.is_available():
        print("step: needs a GPU: PyTorch finds none", file=sys.stderr)
        return 69
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, batch {args.batch}, context {args.context}, ms\n"
          f"{'model':8} {'program':9} {'':5}" + "".join(f"  {phase:>17}" for phase in PHASES) + "     GiB   ratio")
    rows = list(rows_of(args))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "batch": args.batch,
                       "context": args.context, "rows": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
