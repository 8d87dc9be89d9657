"""Loops of the noise, and of signs, on 16 numbers at once; gathers are AVX-512 instructions.

The normal law: LLVM's own vectors of the same loop take 1.6 to 2 times the time. Base and slope of a segment are one 64-bit
word, either gathered, eight an instruction, or loaded one by one into halves of registers from which one shuffle each parts
bases and slopes in order. Numba keeps compiled callers until their own file changes, not this one.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

LANES = 16  # numbers in a vector of float32
_I1, _I16, _I32, _I64, _F32 = ir.IntType(1), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
_F64 = ir.DoubleType()
_PLACE, _BITS, _NUMBER = types.uintp, types.uint32, types.float32  # an address, signs of a vector, a factor
_FIRST = 127 << 6  # segment of the least tail: exponent 0 and mantissa 0 of a float32, six bits of the latter


def has_avx512() -> bool:
    """Return whether numba compiles vectors for AVX-512."""
    return "+avx512f" in cpu_target.target_context.codegen().magic_tuple()[2].split(",")


def wide() -> bool:
    """Return whether numba compiles for AVX-512 and LLVM says that a gather is faster than single loads, as it is not on AMD."""
    return has_avx512() and not cpu_target.target_context.codegen().magic_tuple()[1].startswith("znver")


def by_address(*kinds: types.Type) -> Callable[[Callable[..., None]], Any]:
    """Return a decorator that makes an intrinsic of a law: it gets a builder and values of ``kinds``, and writes to addresses."""

    def decorated(law: Callable[..., None]) -> Any:
        def code(context: Any, builder: ir.IRBuilder, _: Any, arguments: Sequence[ir.Value]) -> Any:
            law(builder, *arguments)
            return context.get_dummy_value()

        def typed(typing_context: Any, *given: types.Type) -> Any:
            return types.void(*kinds), code

        typed.__name__, typed.__doc__ = law.__name__, law.__doc__
        # numba counts the caller's arguments by the signature, without its first one
        typed.__signature__ = inspect.signature(law)  # type: ignore[attr-defined]
        return intrinsic(typed)

    return decorated


def size(number: int) -> ir.Constant:
    """Return a 64-bit constant of LLVM."""
    return ir.Constant(_I64, number)


def _same(value: int, lanes: int = LANES) -> ir.Constant:
    return ir.Constant(ir.VectorType(_I32, lanes), [value] * lanes)


def everywhere(builder: ir.IRBuilder, number: ir.Value, lanes: int = LANES) -> ir.Value:
    """Return an LLVM vector with ``number`` in all lanes."""
    one = builder.insert_element(ir.Constant(ir.VectorType(number.type, lanes), ir.Undefined), number, size(0))
    return builder.shuffle_vector(one, one, _same(0, lanes))


def _at(builder: ir.IRBuilder, address: ir.Value, kind: ir.Type, lanes: int = LANES) -> ir.Value:
    return builder.inttoptr(address, ir.VectorType(kind, lanes).as_pointer())


def _normals(gathers: bool) -> Any:
    @by_address(_PLACE, _PLACE, _PLACE)
    def law(builder, source, target, table):
        """Write normals of the LANES words at address ``source`` to address ``target``; ``table``: address of 64-bit entries."""
        ints, floats = ir.VectorType(_I32, LANES), ir.VectorType(_F32, LANES)
        words = builder.load(_at(builder, source, _I32), align=4)
        tail = builder.and_(words, _same(0x7FFFFFFF))
        tail = builder.select(builder.icmp_signed(">", tail, _same(1)), tail, _same(1))
        # through float32 and back to bits: its exponent and mantissa name segment and step (neuro_cli.core.quantile)
        bits = builder.bitcast(builder.sitofp(tail, floats), ints)
        segment = builder.lshr(bits, _same(17))
        step = builder.sitofp(builder.and_(builder.lshr(bits, _same(5)), _same(4095)), floats)
        first = builder.inttoptr(builder.sub(table, size(8 * _FIRST)), ir.IntType(8).as_pointer())
        base, slope = (_gathered if gathers else _loaded)(builder, first, segment)
        signless = builder.bitcast(builder.fadd(base, builder.fmul(step, slope)), ints)
        signed = builder.xor(signless, builder.and_(words, _same(0x80000000)))
        builder.store(signed, _at(builder, target, _I32), align=4)

    return law


normals_by_gathers, normals_by_loads = _normals(True), _normals(False)


def _shuffled(builder: ir.IRBuilder, one: ir.Value, other: ir.Value, order: Sequence[int]) -> ir.Value:
    """Return lanes of ``one`` and then of ``other``, by number."""
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(_I32, len(order)), list(order)))


def _gathered(builder: ir.IRBuilder, first: ir.Value, segment: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return bases and slopes (LANES,) of segments, by two gathers."""
    low, high = (_eight_gathered(builder, first, segment, half) for half in (0, 1))
    floats = ir.VectorType(_F32, LANES)
    base, slope = (builder.bitcast(_shuffled(builder, low, high, range(part, 2 * LANES, 2)), floats) for part in (0, 1))
    return base, slope


def _loaded(builder: ir.IRBuilder, first: ir.Value, segment: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return bases and slopes (LANES,) of segments, by a load of 64 bits for each."""
    entries = builder.bitcast(first, _F64.as_pointer())
    pairs = builder.bitcast(segment, ir.VectorType(_I64, LANES // 2))  # halves of 64 bits take fewer instructions than words
    places = list[ir.Value]()
    for lane in range(LANES // 2):
        two = builder.extract_element(pairs, size(lane))
        places += [builder.and_(two, size(2**32 - 1)), builder.lshr(two, size(32))]

    def register(numbers: Sequence[int]) -> ir.Value:
        result = ir.Constant(ir.VectorType(_F64, 4), ir.Undefined)
        for lane, number in enumerate(numbers):
            result = builder.insert_element(result, builder.load(builder.gep(entries, [places[number]]), align=8), size(lane))
        return builder.bitcast(result, ir.VectorType(_F32, 8))

    eights = list[tuple[ir.Value, ir.Value]]()
    for low in range(0, LANES, 8):
        # a shuffle of AVX2 takes from each half of both registers: so the halves hold lanes 0, 1 and 4, 5, and 2, 3 and 6, 7
        one, other = register([low, low + 1, low + 4, low + 5]), register([low + 2, low + 3, low + 6, low + 7])
        base, slope = (_shuffled(builder, one, other, [part + lane for lane in (0, 2, 8, 10, 4, 6, 12, 14)]) for part in (0, 1))
        eights.append((base, slope))
    base, slope = (_shuffled(builder, low, high, range(LANES)) for low, high in zip(*eights, strict=True))
    return base, slope


def _eight_gathered(builder: ir.IRBuilder, first: ir.Value, segment: ir.Value, half: int) -> ir.Value:
    """Return entries of eight segments, as (16,) 32-bit words: base, slope, base, .."""
    eight, mask, index = ir.VectorType(_I64, 8), ir.VectorType(_I1, 8), ir.VectorType(_I32, 8)
    kind = ir.FunctionType(eight, [eight, first.type, index, mask, _I32])
    gather = builder.module.globals.get("llvm.x86.avx512.mask.gather.dpq.512")
    gather = gather or ir.Function(builder.module, kind, "llvm.x86.avx512.mask.gather.dpq.512")
    places = _shuffled(builder, segment, segment, range(8 * half, 8 * half + 8))
    nothing, all_of_them = ir.Constant(eight, [0] * 8), ir.Constant(mask, [1] * 8)
    entries = builder.call(gather, [nothing, first, places, all_of_them, ir.Constant(_I32, 8)])
    return builder.bitcast(entries, ir.VectorType(_I32, LANES))


def _signed(builder: ir.IRBuilder, source: ir.Value, bits: ir.Value, lanes: int) -> ir.Value:
    """Return numbers at an address, with the other sign where the bit of their lane is 1."""
    value = builder.load(_at(builder, source, _F32, lanes), align=4)
    mask = builder.bitcast(builder.trunc(bits, ir.IntType(lanes)), ir.VectorType(_I1, lanes))
    return builder.select(mask, builder.fneg(value), value)


def _flipped(lanes: int) -> Any:
    @by_address(_PLACE, _BITS, _PLACE)
    def law(builder, source, bits, target):
        """Write numbers at address ``source`` with the signs of ``bits`` to address ``target``."""
        builder.store(_signed(builder, source, bits, lanes), _at(builder, target, _F32, lanes), align=4)

    return law


flipped, flipped_one = _flipped(LANES), _flipped(1)


def _rounded(lanes: int) -> Any:
    @by_address(_PLACE, _PLACE)
    def law(builder, source, target):
        """Write the bfloat16 numbers nearest to float32 numbers at address ``source`` to address ``target``."""
        value = builder.load(_at(builder, source, _F32, lanes), align=4)
        bits = builder.bitcast(value, ir.VectorType(_I32, lanes))
        odd = builder.and_(builder.lshr(bits, _same(16, lanes)), _same(1, lanes))
        near = builder.lshr(builder.add(bits, builder.add(odd, _same(0x7FFF, lanes))), _same(16, lanes))
        # rounding would carry the bits of what is no number into its sign
        result = builder.select(builder.fcmp_unordered("uno", value, value), _same(0x7FC0, lanes), near)
        words = builder.trunc(result, ir.VectorType(_I16, lanes))
        builder.store(words, _at(builder, target, _I16, lanes), align=2)

    return law


rounded, rounded_one = _rounded(LANES), _rounded(1)


def _widened(typing_context, word):
    """Value of a bfloat16 number, given as a word of 16 bits, in float32."""

    def law(context, builder, signature, arguments):
        wide = builder.shl(builder.zext(arguments[0], _I32), ir.Constant(_I32, 16))
        return builder.bitcast(wide, _F32)

    return types.float32(types.uint16), law


widened: Any = intrinsic(_widened)


def _added_flipped(lanes: int) -> Any:
    @by_address(_PLACE, _BITS, _NUMBER, _PLACE)
    def law(builder, source, bits, scale, target):
        """Add ``scale`` times numbers at address ``source``, with the signs of ``bits``, to those at address ``target``."""
        place = _at(builder, target, _F32, lanes)
        # rounded by itself, as without vectors
        step = builder.fmul(everywhere(builder, scale, lanes), _signed(builder, source, bits, lanes))
        builder.store(builder.fadd(builder.load(place, align=4), step), place, align=4)

    return law


added_flipped, added_flipped_one = _added_flipped(LANES), _added_flipped(1)
