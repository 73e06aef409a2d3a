"""Shows two properties that only hw4 has: python python/example.py [STEPS]

1. Trains one tiny model twice, with attention on the CPU and on the GPU (twice on the CPU where there is no GPU; all
   other layers always run on the CPU), and compares every weight bit by bit after the last step.
2. Computes the attention of one sequence at once, and again in chunks against a growing cache, as decoding does, and
   compares every bit.
Both use the contract f32; PyTorch's own attention runs as a comparison, and its seconds are printed.
"""
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    sys.exit(f"example: needs PyTorch 2.4 or later: {error}")

import hw4

WIDTH, HEADS, TOKENS, BATCH = 64, 4, 96, 8


class Block(torch.nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.attend = attend
        self.embed = torch.nn.Embedding(32, WIDTH)
        self.into = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, 32)
        self.seconds = 0.0

    def forward(self, tokens):
        x = self.embed(tokens)
        q, k, v = self.into(x).view(*tokens.shape, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        start = time.perf_counter()
        o = self.attend(q, k, v)
        self.seconds += time.perf_counter() - start
        return self.out(x + o.transpose(1, 2).reshape(x.shape))


def trained(attend, steps):
    """The model after this many steps on repeated sequences."""
    torch.manual_seed(0)
    model = Block(attend)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        half = torch.randint(32, (BATCH, TOKENS // 2))
        tokens = torch.cat((half, half), 1)
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"  loss {loss.item():.6f}, attention {model.seconds:.3f} s forward")
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def same_bits(a, b):
    return bool((a.cpu().view(torch.int32) == b.cpu().view(torch.int32)).all())


def by_hw4(device):
    return lambda q, k, v: hw4.attention(q.to(device), k.to(device), v.to(device), causal=True, contract="f32").cpu()


def main():
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)  # the layers around the attention keep one order of sums
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    other = "cuda" if torch.cuda.is_available() else "cpu"
    weights = []
    for device in ("cpu", other):
        print(f"training, attention by hw4 on {device}:")
        weights.append(trained(by_hw4(device), steps))
    print("training, attention by PyTorch on cpu:")
    trained(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), steps)
    equal = same_bits(*weights)
    print(f"weights after {steps} steps on cpu and {other}: {'equal' if equal else 'DIFFERENT'} bits")

    torch.manual_seed(1)
    q, k, v = (torch.randn(1, HEADS, 1000, 64, device=other) for _ in range(3))
    start = time.perf_counter()
    whole = hw4.attention(q, k, v, causal=True).cpu()
    at_once = time.perf_counter() - start
    ends = [0, 700, *range(701, 717), 900, 1000]  # a prompt, single tokens, two more chunks
    start = time.perf_counter()
    parts = torch.cat([hw4.attention(q[:, :, a:b], k[:, :, :b], v[:, :, :b], causal=True)
                       for a, b in zip(ends, ends[1:])], 2).cpu()
    in_chunks = time.perf_counter() - start
    chunks_equal = same_bits(whole, parts)
    print(f"1000 tokens at once ({at_once * 1e3:.1f} ms) and in {len(ends) - 1} chunks ({in_chunks * 1e3:.1f} ms): "
          f"{'equal' if chunks_equal else 'DIFFERENT'} bits")
    return 0 if equal and chunks_equal else 1


if __name__ == "__main__":
    sys.exit(main())
