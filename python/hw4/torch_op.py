"""The PyTorch operators hw4::forward and hw4::backward, and hw4.attention of tensors.

An eager call fills in one struct, which is kept for calls of the same shapes and strides, and passes it to libhw4: no
host work depends on the size of the tensors. On a GPU nothing is launched but the kernels."""

import threading
from typing import Tuple

import torch
from torch import Tensor

from . import library, shapes

ELEMENTS = {torch.float32: library.FLOAT32, torch.bfloat16: library.BF16, torch.float16: library.FP16}
_MOST_KEPT = 512
_kept = threading.local()
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def _stream(device):
    if _raw_stream is not None:
        return _raw_stream(device.index)
    return torch.cuda.current_stream(device).cuda_stream


def _rows(tensor):
    """The tensor itself where the kernels take its strides, otherwise a copy."""
    strides = tensor.stride()
    item = tensor.element_size()
    align = 16 if tensor.shape[-1] * item % 16 == 0 else item
    direct = (strides[-1] == 1 and (tensor.shape[-2] == 1 or strides[-2] >= tensor.shape[-1]) and
              all(stride * item % align == 0 for stride in strides[:-1]) and tensor.data_ptr() % align == 0)
    return tensor if direct else tensor.clone(memory_format=torch.contiguous_format)


def _require_same(tensors):
    first = tensors[0]
    for tensor in tensors[1:]:
        if tensor.dtype != first.dtype or tensor.device != first.device:
            raise ValueError("tensors of one dtype on one device are needed, got " +
                             ", ".join(f"{t.dtype} on {t.device}" for t in tensors))
    if first.dtype not in ELEMENTS:
        raise ValueError(f"tensors are of {first.dtype}: need float32, bfloat16 or float16")
    if first.device.type not in ("cpu", "cuda"):
        raise ValueError(f"tensors are on {first.device}: need cpu or cuda")


def _new(operation, q, k, v, causal, contract, asked):
    """A call of these shapes and strides, planned; asked: lse, statistics."""
    _require_same((q, k, v))
    sizes = shapes.sizes_of(q.shape, k.shape, v.shape)
    place = library.DEVICE if q.is_cuda else library.HOST
    call = library.new_call(contract, operation, ELEMENTS[q.dtype], causal, place, sizes)
    for name, tensor in zip(("q", "k", "v"), (q, k, v)):
        shapes.set_tensor(getattr(call, name), 0, tensor.stride())
    for name, tensor in zip(("o", "d_o", "dq", "dk", "dv"), (q, q, q, k, v)):
        shapes.set_tensor(getattr(call, name), None, _contiguous_strides(tensor.shape))
    if operation == library.BACKWARD:
        call.o.data = call.statistics = 1 if asked[1] else None
    else:
        call.lse, call.statistics = (1 if asked[0] else None), (1 if asked[1] else None)
    needs = library.plan(call)
    return call, needs


def _contiguous_strides(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _call_of(operation, q, k, v, causal, contract, asked):
    kept = _kept.__dict__.setdefault("calls", {})
    key = (operation, q.shape, q.stride(), k.shape, k.stride(), v.shape, v.stride(), q.dtype, k.dtype, v.dtype,
           q.device, k.device, v.device, causal, contract, asked)
    found = kept.get(key)
    if found is None:
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        found = kept[key] = _new(operation, q, k, v, causal, contract, asked)
    return found


def _launch(call, needs, q, check=False):
    """Runs a filled-in call in the tensors' stream; its workspace is the caching allocator's."""
    if not q.is_cuda:
        library.check(call)
        return library.run(call)
    index = q.device.index
    if index != torch.cuda.current_device():
        with torch.cuda.device(index):
            return _launch(call, needs, q, check)
    call.stream = _stream(q.device)
    size = max(needs.workspace_bytes, needs.check_bytes if check else 0)
    workspace = torch.empty(size, dtype=torch.uint8, device=q.device) if size else None
    call.workspace, call.workspace_bytes = (workspace.data_ptr(), size) if size else (None, 0)
    if check:
        library.check(call)
    library.run(call)


_library = torch.library.Library("hw4", "DEF")
_library.define("forward(Tensor q, Tensor k, Tensor v, bool causal, str contract, bool lse, bool statistics, bool check)"
                " -> (Tensor, Tensor, Tensor)")
_library.define("backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor statistics, Tensor d_o, bool causal, "
                "str contract) -> (Tensor, Tensor, Tensor)")


def _outputs(q, lse, statistics):
    """O has the layout of q, (B, N, H, d) under (B, H, N, d) too."""
    rows = q.shape[:-1]
    o = torch.empty_like(q) if q.stride(-1) == 1 else q.new_empty(q.shape)
    return (o, q.new_empty(rows if lse else (0,), dtype=torch.float32),
            q.new_empty((*rows, 3) if statistics else (0,), dtype=torch.float32))


def _forward(q: Tensor, k: Tensor, v: Tensor, causal: bool, contract: str, lse: bool, statistics: bool,
             check: bool) -> Tuple[Tensor, Tensor, Tensor]:
    o, sums, rows = _outputs(q, lse, statistics)
    q, k, v = _rows(q), _rows(k), _rows(v)
    call, needs = _call_of(library.FORWARD, q, k, v, causal, contract, (lse, statistics))
    call.q.data, call.k.data, call.v.data = q.data_ptr(), k.data_ptr(), v.data_ptr()
    shapes.set_tensor(call.o, o.data_ptr(), o.stride())
    if lse:
        call.lse = sums.data_ptr()
    if statistics:
        call.statistics = rows.data_ptr()
    _launch(call, needs, q, check)
    return o, sums, rows


def _backward(q: Tensor, k: Tensor, v: Tensor, o: Tensor, statistics: Tensor, d_o: Tensor, causal: bool,
              contract: str) -> Tuple[Tensor, Tensor, Tensor]:
    known = statistics.numel() > 0
    q, k, v, d_o = _rows(q), _rows(k), _rows(v), _rows(d_o)
    call, needs = _call_of(library.BACKWARD, q, k, v, causal, contract, (False, known))
    out = [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (q, k, v)]
    call.q.data, call.k.data, call.v.data = q.data_ptr(), k.data_ptr(), v.data_ptr()
    call.dq.data, call.dk.data, call.dv.data = (t.data_ptr() for t in out)
    shapes.set_tensor(call.d_o, d_o.data_ptr(), d_o.stride())
    if known:
        o, statistics = _rows(o), statistics.contiguous()
        shapes.set_tensor(call.o, o.data_ptr(), o.stride())
        call.statistics = statistics.data_ptr()
    _launch(call, needs, q)
    return tuple(out)


for _key in ("CPU", "CUDA"):
    _library.impl("forward", _forward, _key)
    _library.impl("backward", _backward, _key)


@torch.library.register_fake("hw4::forward")
def _(q, k, v, causal, contract, lse, statistics, check):
    shapes.sizes_of(q.shape, k.shape, v.shape)
    return _outputs(q, lse, statistics)


@torch.library.register_fake("hw4::backward")
def _(q, k, v, o, statistics, d_o, causal, contract):
    return tuple(torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (q, k, v))


def _keep(ctx, inputs, output):
    q, k, v, causal, contract, _, _, _ = inputs
    o, lse, statistics = output
    ctx.save_for_backward(q, k, v, o, statistics)
    ctx.causal, ctx.contract = causal, contract
    ctx.mark_non_differentiable(lse, statistics)
    ctx.set_materialize_grads(False)


def _gradients(ctx, d_o, d_lse, d_statistics):
    if d_o is None:
        return (None,) * 8
    q, k, v, o, statistics = ctx.saved_tensors
    dq, dk, dv = torch.ops.hw4.backward(q, k, v, o, statistics, d_o, ctx.causal, ctx.contract)
    return dq, dk, dv, None, None, None, None, None


torch.library.register_autograd("hw4::forward", _gradients, setup_context=_keep, lib=_library)


def attention(q, k, v, causal=False, contract=None, return_lse=False, check=None):
    _require_same((q, k, v))
    contract = shapes.contract_for(contract, ELEMENTS[q.dtype])
    trains = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    if trains:
        shapes.require_backward(contract)
    o, lse, _ = torch.ops.hw4.forward(q, k, v, bool(causal), contract, bool(return_lse), trains, bool(check))
    return (o, lse) if return_lse else o


class FlashAttention(torch.autograd.Function):
    """Stanford CS336's form: FlashAttention.apply(q, k, v, is_causal) on (B, N, d). Saves q, k, v, O, the logsumexps
    (B, N) and what the gradients are computed from."""

    @staticmethod
    def forward(ctx, q, k, v, is_causal=False):
        contract = shapes.contract_for(None, ELEMENTS[q.dtype])
        o, lse, statistics = torch.ops.hw4.forward(q, k, v, bool(is_causal), contract, True, True, False)
        ctx.save_for_backward(q, k, v, o, lse, statistics)
        ctx.is_causal, ctx.contract = bool(is_causal), contract
        return o

    @staticmethod
    def backward(ctx, d_o):
        q, k, v, o, _, statistics = ctx.saved_tensors
        return (*torch.ops.hw4.backward(q, k, v, o, statistics, d_o, ctx.is_causal, ctx.contract), None)
