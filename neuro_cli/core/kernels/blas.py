"""Matrix products inside compiled loops, by the BLAS that torch itself calls: the same bits, and no second library.

numba's own products take SciPy's OpenBLAS, whose threads would meet torch's on the same cores. A product receives addresses
alone, so shapes, sizes of numbers and contiguity are asserted before it. No matrix may be without columns: BLAS would return
without a product.
"""

import ctypes
import logging
from typing import Any

import llvmlite.binding as llvm
import numba as nb
import torch  # noqa: F401 (loads the library)
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from neuro_cli.core.machine.mkl import warn_without_same_bits

log = logging.getLogger(__name__)

LIBRARY = "libtorch_cpu.so"  # the loader knows its name, wherever torch has loaded it from
NAMES = ("sgemm_", "SGEMM")  # Fortran compilers append "_"; torch's wheels for x86 export MKL's capitals only
_SYMBOL = "neuro_sgemm"
_I8, _I32, _F32 = ir.IntType(8), ir.IntType(32), ir.FloatType()


def _shown(name: str, symbol: str) -> bool:
    """Give compiled loops the address of a function of torch's library as ``symbol``; False where it has none of that name."""
    try:
        function = getattr(ctypes.CDLL(LIBRARY), name, None)
    except OSError:  # torch's parts have other names there
        return False
    if function is not None:
        llvm.add_symbol(symbol, ctypes.cast(function, ctypes.c_void_p).value)
    return function is not None


def _found() -> bool:
    """Give compiled loops the address of sgemm; False where torch's library shows none."""
    if any(_shown(name, _SYMBOL) for name in NAMES):
        warn_without_same_bits(LIBRARY)
        return True
    log.warning("torch's BLAS has no sgemm to call: linear layers of many members go by torch operations, slower")
    return False


SERVES = _found()
_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)


def _sgemm(typing_context, orders, sizes, a, b, beta, c):
    """Matrix c (m, n) = a (m, k) b (k, n) + beta * c in the order of Fortran, of float32.

    ``orders``: a letter for a and b, N or T (it lies transposed); ``sizes``: m, n, k; a, b, c: address and length of a column.
    """
    size = types.uintp
    of_each, matrix = (types.UniTuple(kind, count) for kind, count in ((types.int32, 3), (size, 2)))
    return types.void(types.UniTuple(types.int8, 2), of_each, matrix, matrix, types.float32, matrix), _call


sgemm: Any = intrinsic(_sgemm)


def _call(context, builder, signature, arguments):
    orders, sizes, a, b, beta, c = arguments

    def stored(kind: ir.Type, value: ir.Value) -> ir.Value:
        """Address of a value, in the form in which Fortran takes all arguments."""
        place = cgutils.alloca_once(builder, kind)
        builder.store(value, place)
        return builder.bitcast(place, _I8.as_pointer())

    def parts(values: ir.Value, kind: ir.Type, count: int) -> list[ir.Value]:
        return [stored(kind, builder.extract_value(values, place)) for place in range(count)]

    def matrix(given: ir.Value) -> list[ir.Value]:
        address, length = (builder.extract_value(given, place) for place in (0, 1))
        return [builder.inttoptr(address, _I8.as_pointer()), stored(_I32, builder.trunc(length, _I32))]

    one = stored(_F32, ir.Constant(_F32, 1.0))
    given = [*parts(orders, _I8, 2), *parts(sizes, _I32, 3), one, *matrix(a), *matrix(b), stored(_F32, beta), *matrix(c)]
    kind = ir.FunctionType(ir.VoidType(), [_I8.as_pointer()] * len(given))
    builder.call(cgutils.get_or_insert_function(builder.module, kind, _SYMBOL), given)
    return context.get_dummy_value()


UNCHANGED, TRANSPOSED = nb.int8(ord("N")), nb.int8(ord("T"))


@_compiled
def product(x, weight, out):
    """Set ``out`` (n, O) = x (n, I) weight (O, I)^T, float32 and contiguous; what lies in ``out`` is not read."""
    assert x.shape[1] == weight.shape[1] > 0 and out.shape == (x.shape[0], weight.shape[0]) and out.shape[1] > 0
    assert x.itemsize == weight.itemsize == out.itemsize == 4
    assert x.flags.c_contiguous and weight.flags.c_contiguous and out.flags.c_contiguous
    # rows here are Fortran's columns, and so every matrix is its transpose there: out^T = weight x^T
    inner, width = nb.uintp(x.shape[1]), nb.uintp(out.shape[1])
    sgemm(
        (TRANSPOSED, UNCHANGED), (nb.int32(width), nb.int32(x.shape[0]), nb.int32(inner)), (nb.uintp(weight.ctypes.data), inner),
        (nb.uintp(x.ctypes.data), inner), nb.float32(0), (nb.uintp(out.ctypes.data), width),
    )  # fmt: skip
