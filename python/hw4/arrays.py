"""Attention of numpy arrays, on the CPU."""

import numpy

from . import library, shapes

ELEMENTS = {numpy.dtype("float32"): library.FLOAT32, numpy.dtype("float16"): library.FP16}


def _rows(array):
    """The array itself where the columns of a row are contiguous, otherwise a copy."""
    item = array.itemsize
    direct = array.shape[-1] == 1 or array.strides[-1] == item
    direct = direct and all(s >= 0 and s % item == 0 for s in array.strides) and (
        array.shape[-2] == 1 or array.strides[-2] >= item * array.shape[-1])
    return array if direct else numpy.ascontiguousarray(array)


def _strides(array):
    return [s // array.itemsize for s in array.strides]


def _integers(name, values):
    values = numpy.asarray(values)
    if values.dtype.kind not in "iu":
        raise ValueError(f"{name} are of {values.dtype}: need integers")
    return values


def _table(pages):
    """Converts to int32; numbers out of its range become its largest or smallest, which are refused too."""
    return numpy.ascontiguousarray(_integers("pages", pages).clip(-2**31, 2**31 - 1), numpy.int32)


def attention(q, k, v, causal, contract, return_lse, check, scale=None, lengths=None, window=None, pages=None):
    arrays = [q, k, v]
    if not all(isinstance(array, numpy.ndarray) for array in arrays):
        raise TypeError("q, k, v: need three torch tensors or three numpy arrays")
    if any(array.dtype != q.dtype for array in arrays) or q.dtype not in ELEMENTS:
        raise ValueError(f"q, k, v are of {q.dtype}, {k.dtype}, {v.dtype}: need float32 or float16, the same for all")
    pages = None if pages is None else _table(pages)
    sizes = shapes.sizes_of(q.shape, k.shape, v.shape) if pages is None else shapes.paged_sizes(
        q.shape, k.shape, v.shape, pages.shape)
    element = ELEMENTS[q.dtype]
    q, k, v = map(_rows, arrays)
    o = numpy.empty(shapes.output_shape(q.shape, v.shape), q.dtype)
    call = library.new_call(shapes.contract_for(contract, element), library.FORWARD, element, causal, library.HOST, sizes,
                            shapes.scale_for(scale), shapes.window_for(window, causal))
    if lengths is not None:
        lengths = _integers("lengths", lengths)
        shapes.require_lengths(lengths.shape, lengths.tolist(), q.shape[0], sizes[4])
        lengths = numpy.ascontiguousarray(lengths, numpy.int32)
        call.lengths = lengths.ctypes.data
    if pages is not None:
        shapes.set_pages(call, pages.ctypes.data, pages.shape[1], k.shape)
    for place, array in ((call.q, q), (call.k, k), (call.v, v), (call.o, o)):
        shapes.set_tensor(place, array.ctypes.data, _strides(array))
    lse = numpy.empty(q.shape[:-1], numpy.float32) if return_lse else None
    call.lse = None if lse is None else lse.ctypes.data
    if check is not False:
        library.check(call)
    library.run(call)
    return (o, lse) if return_lse else o


def append(k, v, k_cache, v_cache, lengths, pages, rope, q, interleaved):
    arrays = [k, v, k_cache, v_cache] + [array for array in (q, rope) if array is not None]
    if not all(isinstance(array, numpy.ndarray) for array in arrays):
        raise TypeError("k, v, k_cache, v_cache, q, rope: need torch tensors alone or numpy arrays alone")
    arrays = arrays[:4] + ([] if q is None else [q])
    if any(array.dtype != k.dtype for array in arrays) or k.dtype not in ELEMENTS:
        raise ValueError(f"arrays are of {', '.join(str(a.dtype) for a in arrays)}: need float32 or float16, all the same")
    if any(_rows(cache) is not cache for cache in (k_cache, v_cache)):
        raise ValueError("k_cache and v_cache: need arrays whose rows have neighbouring columns")
    pages = None if pages is None else _table(pages)
    if rope is not None and (rope.dtype != numpy.float32 or not rope.flags.c_contiguous):
        raise ValueError("rope: need float32 numbers without gaps, as hw4.rope_table makes them")
    room = shapes.append_room(k, v, k_cache, v_cache, pages, rope, q)
    lengths = _integers("lengths", lengths)
    shapes.require_lengths(lengths.shape, lengths.tolist(), k.shape[0], room, k.shape[2])
    lengths = numpy.ascontiguousarray(lengths, numpy.int32)
    tensors = [_rows(k), _rows(v), k_cache, v_cache]
    if q is not None:
        tensors += [_rows(q), numpy.empty(q.shape, q.dtype)]
    library.append(shapes.append_call(ELEMENTS[k.dtype], library.HOST, room, lambda a: a.ctypes.data, _strides, tensors,
                                      lengths, pages, rope, interleaved))
    return None if q is None else tensors[-1]
