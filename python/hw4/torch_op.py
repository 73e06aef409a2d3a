"""The PyTorch operators hw4::attention, hw4::forward, hw4::backward, hw4::decode and hw4::append, and hw4.attention,
hw4.decode and hw4.append for tensors.

An eager call fills in one struct, which is cached for calls of the same shapes and strides, and passes it to libhw4: no
host work depends on the size of the tensors. A GPU only runs the kernels."""

import threading
from typing import Optional, Tuple

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
    if tensor.is_contiguous() and tensor.data_ptr() % 16 == 0:
        return tensor
    shape, strides, item = tensor.shape, tensor.stride(), tensor.element_size()
    columns = shape[-1]
    align = 16 if columns * item % 16 == 0 else 4 * item if columns % 4 == 0 else item
    direct = ((strides[-1] == 1 or shape[-1] == 1) and (shape[-2] == 1 or strides[-2] >= shape[-1]) and
              all(stride * item % align == 0 for size, stride in zip(shape, strides[:-1]) if size > 1) and
              tensor.data_ptr() % align == 0)
    return tensor if direct else tensor.clone(memory_format=torch.contiguous_format)


def _require_same(tensors):
    first = tensors[0]
    for tensor in tensors[1:]:
        if not isinstance(tensor, Tensor):
            raise TypeError("need torch tensors alone or numpy arrays alone")
        if tensor.dtype != first.dtype or tensor.device != first.device:
            raise ValueError("tensors of one dtype on one device are needed, got " +
                             ", ".join(f"{t.dtype} on {t.device}" for t in tensors))
    if first.dtype not in ELEMENTS:
        raise ValueError(f"tensors are of {first.dtype}: need float32, bfloat16 or float16")
    if first.device.type not in ("cpu", "cuda"):
        raise ValueError(f"tensors are on {first.device}: need cpu or cuda")


class _Call:
    """A planned call for given shapes and strides. Cached for the next call, which only brings other pointers."""
    NAMES = {library.FORWARD: ("q", "k", "v", "o"), library.BACKWARD: ("q", "k", "v", "dq", "dk", "dv", "d_o", "o")}

    def __init__(self, operation, tensors, causal, contract, lse, statistics, scale, lengths, window, pages):
        _require_same(tensors)
        q, k, v = tensors[:3]
        sizes = shapes.sizes_of(q.shape, k.shape, v.shape) if pages is None else shapes.paged_sizes(
            q.shape, k.shape, v.shape, pages)
        place = library.DEVICE if q.is_cuda else library.HOST
        self.call = library.new_call(contract, operation, ELEMENTS[q.dtype], causal, place, sizes, scale, window)
        self.places = [getattr(self.call, name) for name in self.NAMES[operation][:len(tensors)]]
        for place, tensor in zip(self.places, tensors):
            shapes.set_tensor(place, 1, tensor.stride())
        self.call.lse, self.call.statistics = (1 if lse else None), (1 if statistics else None)
        self.call.lengths = 1 if lengths else None
        if pages is not None:
            shapes.set_pages(self.call, 1, pages[1], k.shape)
        self.needs = library.plan(self.call)
        # More than the least makes some calls faster: up to a 32nd of the GPU's memory.
        most = torch.cuda.get_device_properties(q.device).total_memory // 32 if q.is_cuda else 0
        self.workspace_bytes = max(self.needs.workspace_bytes, min(self.needs.most_workspace, most))

    def run(self, tensors, lse, statistics, check, lengths, pages):
        """Runs in the tensors' stream; the caching allocator provides the workspace."""
        call, needs, q = self.call, self.needs, tensors[0]
        # Allocate first: the allocation may run other Python code, which may come here too.
        size = max(self.workspace_bytes, needs.check_bytes if check else 0)
        try:
            workspace = torch.empty(size, dtype=torch.uint8, device=q.device) if size and q.is_cuda else None
        except torch.cuda.OutOfMemoryError:  # the least, from now on: slower, with the same bytes
            self.workspace_bytes = needs.workspace_bytes
            size = max(self.workspace_bytes, needs.check_bytes if check else 0)
            workspace = torch.empty(size, dtype=torch.uint8, device=q.device)
        for place, tensor in zip(self.places, tensors):
            place.data = tensor.data_ptr()
        if lengths is not None:
            call.lengths = lengths.data_ptr()
        if pages is not None:
            call.pages = pages.data_ptr()
        if lse is not None:
            call.lse = lse.data_ptr()
        if statistics is not None:
            call.statistics = statistics.data_ptr()
        if q.is_cuda:
            call.stream = _stream(q.device)
            call.workspace, call.workspace_bytes = (workspace.data_ptr(), size) if size else (None, 0)
        else:
            call.threads = torch.get_num_threads()
        if check:
            library.check(call)
        library.run(call)


def _run(operation, tensors, causal, contract, lse, statistics, check=False, scale=0.0, lengths=None, window=0,
         pages=None):
    """lse and statistics: written, or in backward read; None: not asked for. lengths, pages: int32."""
    q = tensors[0]
    if q.is_cuda and q.device.index != torch.cuda.current_device():
        with torch.cuda.device(q.device):
            return _run(operation, tensors, causal, contract, lse, statistics, check, scale, lengths, window, pages)
    kept = _kept.__dict__.setdefault("calls", {})
    table = None if pages is None else tuple(pages.shape)
    key = (operation, causal, contract, lse is None, statistics is None, scale, lengths is None, window, table,
           *[(t.shape, t.stride(), t.dtype, t.device) for t in tensors])
    call = kept.get(key)
    if call is None:
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        call = kept[key] = _Call(operation, tensors, causal, contract, lse is not None, statistics is not None, scale,
                                 lengths is not None, window, table)
    call.run(tensors, lse, statistics, check, lengths, pages)


_library = torch.library.Library("hw4", "DEF")
# Without gradients and logsumexps: one output, and no Python code for autograd. A scale of 0 is 1/sqrt(d), a window of
# 0 none.
_library.define("attention(Tensor q, Tensor k, Tensor v, bool causal, str contract, float scale, int window, "
                "bool check) -> Tensor")
_library.define("forward(Tensor q, Tensor k, Tensor v, bool causal, str contract, float scale, int window, bool lse, "
                "bool statistics, bool check) -> (Tensor, Tensor, Tensor)")
_library.define("backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor statistics, Tensor d_o, bool causal, "
                "str contract, float scale) -> (Tensor, Tensor, Tensor)")
_library.define("decode(Tensor q, Tensor k, Tensor v, Tensor lengths, Tensor? pages, bool causal, str contract, "
                "float scale, int window, bool lse, bool check) -> (Tensor, Tensor)")
# Returns the rotated rows of q; empty without q.
_library.define("append(Tensor k, Tensor v, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor lengths, Tensor? pages, "
                "Tensor? rope, Tensor? q, bool interleaved) -> Tensor")


def _output(q, columns=None):
    """O has the layout of q, (B, N, H, d) also for (B, H, N, d), unless it has another number of columns."""
    if columns not in (None, q.shape[-1]):
        return q.new_empty((*q.shape[:-1], columns))
    return torch.empty_like(q) if q.stride(-1) == 1 else q.new_empty(q.shape)


def _outputs(q, v, lse, statistics):
    rows = q.shape[:-1]
    return (_output(q, v.shape[-1]), q.new_empty(rows if lse else (0,), dtype=torch.float32),
            q.new_empty((*rows, 3) if statistics else (0,), dtype=torch.float32))


def _attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, contract: str, scale: float, window: int,
               check: bool) -> Tensor:
    o = _output(q, v.shape[-1])
    _run(library.FORWARD, (_rows(q), _rows(k), _rows(v), o), causal, contract, None, None, check, scale, None, window)
    return o


def _forward(q: Tensor, k: Tensor, v: Tensor, causal: bool, contract: str, scale: float, window: int, lse: bool,
             statistics: bool, check: bool) -> Tuple[Tensor, Tensor, Tensor]:
    o, sums, rows = _outputs(q, v, lse, statistics)
    _run(library.FORWARD, (_rows(q), _rows(k), _rows(v), o), causal, contract, sums if lse else None,
         rows if statistics else None, check, scale, None, window)
    return o, sums, rows


def _decode_sizes(q, k, v, pages):
    if pages is None:
        return shapes.sizes_of(q.shape, k.shape, v.shape)
    return shapes.paged_sizes(q.shape, k.shape, v.shape, pages.shape)


def _int32(tensor, device):
    """Converts to int32; numbers out of its range become its largest or smallest, which are refused too."""
    if tensor.dtype != torch.int32:
        tensor = tensor.clamp(-2**31, 2**31 - 1)
    return tensor.to(device, torch.int32).contiguous()


def _require_rows(tensors):
    """Refuses caches that would have to be copied."""
    if any(_rows(tensor) is not tensor for tensor in tensors):
        raise ValueError("caches: need tensors whose rows have neighbouring columns and begin at 16 bytes")


def _decode(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, pages: Optional[Tensor], causal: bool, contract: str,
            scale: float, window: int, lse: bool, check: bool) -> Tuple[Tensor, Tensor]:
    batches, _, _, _, capacity, _, _ = _decode_sizes(q, k, v, pages)
    shapes.require_lengths(lengths.shape, None if lengths.is_cuda else lengths.tolist(), batches, capacity)
    lengths = _int32(lengths, q.device)
    if pages is not None:
        _require_rows((k, v))
        pages = _int32(pages, q.device)
    o, sums, _ = _outputs(q, v, lse, False)
    _run(library.FORWARD, (_rows(q), _rows(k), _rows(v), o), causal, contract, sums if lse else None, None, check, scale,
         lengths, window, pages)
    return o, sums


def _append(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, pages: Optional[Tensor],
            rope: Optional[Tensor], q: Optional[Tensor], interleaved: bool) -> Tensor:
    if k.is_cuda and k.device.index != torch.cuda.current_device():
        with torch.cuda.device(k.device):
            return _append(k, v, k_cache, v_cache, lengths, pages, rope, q, interleaved)
    room = shapes.append_room(k, v, k_cache, v_cache, pages, rope, q)
    shapes.require_lengths(lengths.shape, None if lengths.is_cuda else lengths.tolist(), k.shape[0], room, k.shape[2])
    _require_rows((k_cache, v_cache))
    lengths = _int32(lengths, k.device)
    pages = None if pages is None else _int32(pages, k.device)
    tensors = [_rows(k), _rows(v), k_cache, v_cache]
    if q is not None:
        tensors += [_rows(q), _output(q)]
    call = shapes.append_call(ELEMENTS[k.dtype], library.DEVICE if k.is_cuda else library.HOST, room, Tensor.data_ptr,
                              Tensor.stride, tensors, lengths, pages, rope, interleaved)
    call.stream = _stream(k.device) if k.is_cuda else None
    library.append(call)
    return k.new_empty((0,)) if q is None else tensors[-1]


def _gradients_like(tensors):
    return tuple(torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in tensors)


def _backward(q: Tensor, k: Tensor, v: Tensor, o: Tensor, statistics: Tensor, d_o: Tensor, causal: bool, contract: str,
              scale: float) -> Tuple[Tensor, Tensor, Tensor]:
    known = statistics.numel() > 0
    rows = torch.Size(shapes.output_shape(q.shape, v.shape))
    for name, tensor, shape in (("d_o", d_o, rows), ("o", o, rows), ("statistics", statistics, (*q.shape[:-1], 3))):
        if tensor.shape != shape and (known or name == "d_o"):
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}: need {tuple(shape)}")
    if statistics.dtype != torch.float32 or statistics.device != q.device:
        raise ValueError(f"statistics are of {statistics.dtype} on {statistics.device}: need float32 on {q.device}")
    out = _gradients_like((q, k, v))
    given = (_rows(o),) if known else ()
    _run(library.BACKWARD, (_rows(q), _rows(k), _rows(v), *out, _rows(d_o), *given), causal, contract, None,
         statistics.contiguous() if given else None, False, scale)
    return out


for _key in ("CPU", "CUDA"):
    _library.impl("attention", _attention, _key)
    _library.impl("forward", _forward, _key)
    _library.impl("backward", _backward, _key)
    _library.impl("decode", _decode, _key)
    _library.impl("append", _append, _key)


@torch.library.register_fake("hw4::attention")
def _(q, k, v, causal, contract, scale, window, check):
    shapes.sizes_of(q.shape, k.shape, v.shape)
    return _output(q, v.shape[-1])


@torch.library.register_fake("hw4::forward")
def _(q, k, v, causal, contract, scale, window, lse, statistics, check):
    shapes.sizes_of(q.shape, k.shape, v.shape)
    return _outputs(q, v, lse, statistics)


@torch.library.register_fake("hw4::backward")
def _(q, k, v, o, statistics, d_o, causal, contract, scale):
    return _gradients_like((q, k, v))


@torch.library.register_fake("hw4::decode")
def _(q, k, v, lengths, pages, causal, contract, scale, window, lse, check):
    _decode_sizes(q, k, v, pages)
    return _outputs(q, v, lse, False)[:2]


@torch.library.register_fake("hw4::append")
def _(k, v, k_cache, v_cache, lengths, pages, rope, q, interleaved):
    return k.new_empty((0,)) if q is None else _output(q)


def _keep(ctx, inputs, output):
    q, k, v, causal, contract, scale, *_ = inputs
    o, lse, statistics = output
    ctx.save_for_backward(q, k, v, o, statistics)
    ctx.causal, ctx.contract, ctx.scale = causal, contract, scale
    ctx.mark_non_differentiable(lse, statistics)
    ctx.set_materialize_grads(False)


def _gradients(ctx, d_o, d_lse, d_statistics):
    if d_o is None:
        return (None,) * 10
    q, k, v, o, statistics = ctx.saved_tensors
    dq, dk, dv = torch.ops.hw4.backward(q, k, v, o, statistics, d_o, ctx.causal, ctx.contract, ctx.scale)
    return dq, dk, dv, *(None,) * 7


def _no_second(ctx, *_):
    raise NotImplementedError("hw4 has no second derivatives")


torch.library.register_autograd("hw4::forward", _gradients, setup_context=_keep, lib=_library)
torch.library.register_autograd("hw4::backward", _no_second, lib=_library)


def attention(q, k, v, causal=False, contract=None, return_lse=False, check=None, scale=None, window=None):
    _require_same((q, k, v))
    contract = shapes.contract_for(contract, ELEMENTS[q.dtype])
    trains = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    if trains:
        shapes.require_backward(contract)
        if window is not None:
            raise ValueError("a window has no backward: call it under torch.no_grad()")
    check = not q.is_cuda if check is None else bool(check)
    scale, window = shapes.scale_for(scale), shapes.window_for(window, causal)
    if not trains and not return_lse:
        return torch.ops.hw4.attention(q, k, v, bool(causal), contract, scale, window, check)
    o, lse, _ = torch.ops.hw4.forward(q, k, v, bool(causal), contract, scale, window, bool(return_lse), trains, check)
    return (o, lse) if return_lse else o


def _no_gradients(name, tensors):
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise ValueError(f"{name} has no gradients: call it under torch.no_grad(), or take hw4.attention")


def _integers(name, values, device):
    values = torch.as_tensor(values)
    if values.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"{name} are of {values.dtype}: need int32 or int64")
    if values.device.type != "cpu" and values.device != device:
        raise ValueError(f"{name} are on {values.device}: need cpu or {device}")
    return values


def decode(q, k_cache, v_cache, lengths, pages, causal, scale, contract, return_lse, check, window=None):
    _require_same((q, k_cache, v_cache))
    _no_gradients("decode", (q, k_cache, v_cache))
    lengths = _integers("lengths", lengths, q.device)
    pages = None if pages is None else _integers("pages", pages, q.device)
    check = not q.is_cuda if check is None else bool(check)
    o, lse = torch.ops.hw4.decode(q, k_cache, v_cache, lengths, pages, bool(causal), contract, shapes.scale_for(scale),
                                  shapes.window_for(window, causal), bool(return_lse), check)
    return (o, lse) if return_lse else o


def append(k, v, k_cache, v_cache, lengths, pages, rope, q, interleaved):
    tensors = (k, v, k_cache, v_cache) + (() if q is None else (q,))
    _require_same(tensors)
    _no_gradients("append", tensors)
    lengths = _integers("lengths", lengths, k.device)
    pages = None if pages is None else _integers("pages", pages, k.device)
    if rope is not None and not (isinstance(rope, Tensor) and rope.dtype == torch.float32 and
                                 rope.device == k.device and rope.is_contiguous()):
        raise ValueError(f"rope: need a float32 tensor without gaps on {k.device}, as hw4.rope_table makes it with "
                         f"device={str(k.device)!r}")
    out = torch.ops.hw4.append(k, v, k_cache, v_cache, lengths, pages, rope, q, bool(interleaved))
    return None if q is None else out


class FlashAttention(torch.autograd.Function):
    """Stanford CS336's interface: FlashAttention.apply(q, k, v, is_causal) on (B, N, d). Saves q, k, v, O, the
    logsumexps (B, N) and the inputs of the gradients."""

    @staticmethod
    def forward(ctx, q, k, v, is_causal=False):
        _require_same((q, k, v))
        contract = shapes.contract_for(None, ELEMENTS[q.dtype])
        o, lse, statistics = torch.ops.hw4.forward(q, k, v, bool(is_causal), contract, 0.0, 0, True, True, False)
        ctx.save_for_backward(q, k, v, o, lse, statistics)
        ctx.is_causal, ctx.contract = bool(is_causal), contract
        return o

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_o):
        q, k, v, o, _, statistics = ctx.saved_tensors
        return (*torch.ops.hw4.backward(q, k, v, o, statistics, d_o, ctx.is_causal, ctx.contract, 0.0), None)
