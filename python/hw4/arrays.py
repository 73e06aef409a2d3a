"""Attention of numpy arrays, on the CPU."""

import numpy

from . import library, shapes

ELEMENTS = {numpy.dtype("float32"): library.FLOAT32, numpy.dtype("float16"): library.FP16}


def _rows(array):
    """The array itself where the columns of a row are neighbours, otherwise a copy."""
    item = array.itemsize
    direct = array.shape[-1] == 1 or array.strides[-1] == item
    direct = direct and all(s >= 0 and s % item == 0 for s in array.strides) and (
        array.shape[-2] == 1 or array.strides[-2] >= item * array.shape[-1])
    return array if direct else numpy.ascontiguousarray(array)


def _set(place, array):
    shapes.set_tensor(place, array.ctypes.data, [s // array.itemsize for s in array.strides])


def attention(q, k, v, causal, contract, return_lse, check, scale=None, lengths=None, window=None):
    arrays = [q, k, v]
    if not all(isinstance(array, numpy.ndarray) for array in arrays):
        raise TypeError("q, k, v: need three torch tensors or three numpy arrays")
    if any(array.dtype != q.dtype for array in arrays) or q.dtype not in ELEMENTS:
        raise ValueError(f"q, k, v are of {q.dtype}, {k.dtype}, {v.dtype}: need float32 or float16, the same for all")
    sizes = shapes.sizes_of(q.shape, k.shape, v.shape)
    element = ELEMENTS[q.dtype]
    q, k, v = map(_rows, arrays)
    o = numpy.empty(q.shape, q.dtype)
    call = library.new_call(shapes.contract_for(contract, element), library.FORWARD, element, causal, library.HOST, sizes,
                            shapes.scale_for(scale), shapes.window_for(window, causal))
    if lengths is not None:
        lengths = numpy.asarray(lengths)
        if lengths.dtype.kind not in "iu":
            raise ValueError(f"lengths are of {lengths.dtype}: need integers")
        shapes.require_lengths(lengths.shape, lengths.tolist(), q.shape[0], k.shape[-2])
        lengths = numpy.ascontiguousarray(lengths, numpy.int32)
        call.lengths = lengths.ctypes.data
    for place, array in ((call.q, q), (call.k, k), (call.v, v), (call.o, o)):
        _set(place, array)
    lse = numpy.empty(q.shape[:-1], numpy.float32) if return_lse else None
    call.lse = None if lse is None else lse.ctypes.data
    if check is not False:
        library.check(call)
    library.run(call)
    return (o, lse) if return_lse else o
