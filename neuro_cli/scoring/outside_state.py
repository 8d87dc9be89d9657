"""State of a script that members write to: a table that a hook fills, a global list of losses, a counter of a fitness.

Copies of a module share it, so threads would read each other's values.
"""

import sys
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.scoring.candidate import UNSUPPORTED

CONTAINERS = (list, deque, set)
LARGEST = 10_000  # items of a container beyond which its length alone is compared: data, which nobody fills in a pass
MOST = 100_000  # objects that are looked at
# progress bars and locks of files change at any time, and no member reads them
OTHERS = ("torch", "numpy", "neuro_cli", "tqdm", "filelock", "huggingface_hub")
FOREIGN = frozenset(OTHERS) | frozenset(sys.stdlib_module_names) - {"__main__"}


class OutsideState:
    """Present state that two copies of a module, ``modules``, share with the ``functions`` that receive them."""

    def __init__(self, modules: Iterable[nn.Module], functions: Iterable[Any]) -> None:
        one, other = (_reached([module, *functions]) for module in modules)
        common = [value for key, value in one.items() if key in other]
        self._before = [(value, _contents(value)) for value in common if _is_written(value)]

    def changed(self) -> str | None:
        """Return in words what of it was written since, None for nothing."""
        return next((_named(value) for value, before in self._before if not _same(before, _contents(value))), None)


def _is_written(value: Any) -> bool:
    return not isinstance(value, (*FIXED, FunctionType, MethodType, partial))


def _named(value: Any) -> str:
    if isinstance(value, _Names):
        return f"a global variable of {value.table.get('__name__')}"
    if isinstance(value, Tensor | np.ndarray):
        return f"{type(value).__name__} of shape {tuple(value.shape)}"
    kind = value if isinstance(value, type) else type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"class {name}" if kind is value else f"{name} of {len(value)}" if isinstance(value, (dict, *CONTAINERS)) else name


FIXED = (str, bytes, int, float, complex, tuple, frozenset, type(None), ModuleType, BuiltinFunctionType, CodeType)


def _same(one: list[Any], other: list[Any]) -> bool:
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(a is b or (type(a) is type(b) is int and a == b) for a, b in pairs)


def _contents(value: Any) -> list[Any]:
    """Return what an object holds now, by identity."""
    if isinstance(value, _Names):
        return value.values()
    if isinstance(value, Tensor):
        return [0 if value.is_inference() else value._version, *_numbers(value)]
    if isinstance(value, np.ndarray | array | bytearray):
        size = value.size if isinstance(value, np.ndarray) else len(value)
        return [hash(value.tobytes() if isinstance(value, np.ndarray) else bytes(value))] if size <= LARGEST else []
    if isinstance(value, CellType):
        return _filled(value)
    if isinstance(value, type):
        return [] if _is_foreign(value.__module__) else list(vars(value).values())
    if isinstance(value, dict):
        return [len(value)] if len(value) > LARGEST else list(chain(dict.keys(value), dict.values(value)))
    kind = next((kind for kind in CONTAINERS if isinstance(value, kind)), None)
    if kind is not None:
        return [len(value)] if len(value) > LARGEST else list(kind.__iter__(value))
    held = {} if _is_closed(value) else _attributes(value)
    return [part for name, part in held.items() if name != "training" or not isinstance(value, nn.Module)]


def _numbers(value: Tensor) -> list[int]:
    """Return where the numbers of a tensor lie and the checksum of some: writes to ``.data`` are not counted."""
    if value.layout is not torch.strided or value.device.type != "cpu" or type(value) not in (Tensor, nn.Parameter):
        return []
    try:
        some = value.detach()[tuple(slice(None, None, max(1, size // 8)) for size in value.shape)]
        return [value.data_ptr(), hash(str(some.tolist()))]
    except UNSUPPORTED:  # a tensor that escaped from a map
        return []


def _attributes(value: Any) -> dict[str, Any]:
    """Return an object's attributes, those of ``__slots__`` too."""
    given = [vars(kind).get("__slots__", ()) for kind in type(value).__mro__]
    slots = [name for names in given for name in ((names,) if isinstance(names, str) else names)]
    own = {name: getattr(value, name) for name in slots if name not in ("__dict__", "__weakref__") and hasattr(value, name)}
    return own | (getattr(value, "__dict__", None) or {})


def _is_closed(value: Any) -> bool:
    """Return whether an object's attributes are a matter of its package: a logger's, an Evolution's."""
    return _is_foreign(type(value).__module__) and not isinstance(value, nn.Module | SimpleNamespace)


class _Names:
    """Names that functions use of one module's table."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.table, self.names = table, dict[str, None]()

    def values(self) -> list[Any]:
        return [self.table[name] for name in self.names if name in self.table]


def _reached(starts: list[Any]) -> dict[Any, Any]:
    """Return objects that ``starts`` hold, by attributes, containers, closures and global names, by what identifies them."""
    seen: dict[Any, Any] = {}
    names: dict[int, _Names] = {}
    todo = list(starts)
    while todo and len(seen) < MOST:
        value = todo.pop()
        if id(value) not in seen:
            seen[id(value)] = value
            todo += _parts(value, names)
    return seen | {("names", key): value for key, value in names.items()}


def _parts(value: Any, names: dict[int, _Names]) -> list[Any]:
    if isinstance(value, FunctionType):
        if _is_foreign(value.__module__):
            return []
        used = names.setdefault(id(value.__globals__), _Names(value.__globals__))
        own = [name for name in _names(value.__code__) if name in value.__globals__]
        used.names.update(dict.fromkeys(own))
        held = [value.__globals__[name] for name in own]
        return [
            vars(value),
            *held,
            *(value.__closure__ or ()),
            *(value.__defaults__ or ()),
            *(value.__kwdefaults__ or {}).values(),
        ]
    if isinstance(value, CellType):
        return _filled(value)
    if isinstance(value, MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, type):
        return [] if _is_foreign(value.__module__) else [*vars(value).values(), *value.__bases__]
    if isinstance(value, staticmethod | classmethod):
        return [value.__func__]
    if isinstance(value, property):
        return [value.fget]
    if isinstance(value, Tensor | np.ndarray | array | bytearray | ModuleType | str | bytes | int | float):
        return []
    if isinstance(value, dict):
        return list(islice(dict.values(value), LARGEST))
    if isinstance(value, (*CONTAINERS, tuple)):
        kind: Any = next(kind for kind in (*CONTAINERS, tuple) if isinstance(value, kind))
        return list(islice(kind.__iter__(value), LARGEST))
    return [] if _is_closed(value) else [type(value), *_attributes(value).values()]


def _names(code: CodeType) -> Iterator[str]:
    """Yield the global names of a function and of those inside of it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _filled(cell: CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # a name without a value yet
        return []


def _is_foreign(name: str | None) -> bool:
    return name is None or name.partition(".")[0] in FOREIGN
