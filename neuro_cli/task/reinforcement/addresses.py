"""Loads, stores and calls by address, for compiled loops that use the objects of a C or C++ library without Python between.

Nothing is checked: who calls these must know that an object of the right kind is there.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _loader(kind: Any) -> Any:
    def codegen(context, builder, signature, arguments):
        return builder.load(builder.inttoptr(arguments[0], context.get_value_type(kind).as_pointer()))

    def load(context, address):
        return kind(types.int64), codegen

    return intrinsic(load)


def _storer(kind: Any) -> Any:
    def codegen(context, builder, signature, arguments):
        builder.store(arguments[1], builder.inttoptr(arguments[0], context.get_value_type(kind).as_pointer()))
        return context.get_dummy_value()

    def store(context, address, value):
        return types.void(types.int64, kind), codegen

    return intrinsic(store)


def _codegen(result: Any, *kinds: Any) -> tuple[Any, Any]:
    """Signature and code of a call of the C function at an address, with arguments of these ``kinds``."""

    def codegen(context, builder, signature, arguments):
        given = ir.VoidType() if result is types.void else context.get_value_type(result)
        form = ir.FunctionType(given, [context.get_value_type(kind) for kind in kinds])
        made = builder.call(builder.inttoptr(arguments[0], form.as_pointer()), arguments[1:])
        return context.get_dummy_value() if result is types.void else made

    return result(types.int64, *kinds), codegen


def _caller(result: Any, kind: Any) -> Any:
    def call(context, function, argument):
        return _codegen(result, kind)

    return intrinsic(call)


def _method(result: Any) -> Any:
    def call(context, function, this, argument):
        return _codegen(result, types.int64, types.int64)

    return intrinsic(call)


load_float, load_int, load_short = _loader(types.float32), _loader(types.int32), _loader(types.uint16)
store_float, store_int, store_short = _storer(types.float32), _storer(types.int32), _storer(types.uint16)
load_address, store_address = _loader(types.int64), _storer(types.int64)

call_float, call_double = _caller(types.float32, types.float32), _caller(types.float64, types.float64)
# methods of an object, without arguments and with the address of one; ``ask``: those that give a bool
call_on, ask_on = _caller(types.void, types.int64), _caller(types.uint8, types.int64)
call_with, ask_with = _method(types.void), _method(types.uint8)
