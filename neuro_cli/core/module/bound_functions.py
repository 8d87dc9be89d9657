"""Copies of functions that a module holds and that refer to it: ``self.head = lambda x: x @ self.embedding.weight.T``, hooks.

``copy.deepcopy`` does not copy functions, so a copy's functions would compute with the numbers of the original.
"""

import copy
from collections import deque
from collections.abc import Iterator
from functools import partial
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import KeyedRef, ProxyTypes, ReferenceType, WeakKeyDictionary, WeakSet, WeakValueDictionary, proxy

from torch import Tensor, nn

TABLES = (WeakKeyDictionary, WeakSet, WeakValueDictionary)
LISTS = (list, tuple, deque, set, frozenset)
FUNCTIONS = (FunctionType, MethodType, partial, ReferenceType)
# never written to
FIXED = (*FUNCTIONS, type, ModuleType, BuiltinFunctionType, tuple, frozenset, str, bytes, int, float, complex, type(None))


class FunctionCopies(dict[int, Any]):
    """Memo of ``copy.deepcopy`` for ``module`` that begins with ``given`` and copies its functions once they are asked for.

    Objects that a function holds, but neither the module nor its parts do (a table that a hook fills), are not copied. Nor is
    what a function finds by a global name: :mod:`neuro_cli.core.module.own_numbers` refuses passes that use it.
    """

    def __init__(self, module: nn.Module, given: dict[int, Any]) -> None:
        super().__init__(given)
        self._targets = {id(part) for part in (*module.modules(), *module.parameters(), *module.buffers())}
        seen: dict[int, Any] = {}
        own = list(_reached([module], seen, functions=False))
        self._held = [value for value in own if not isinstance(value, FIXED)]
        self._targets |= set(map(id, self._held))
        self._cells: dict[int, CellType] = {}
        # found before the copying begins, since deepcopy asks by identity
        behind = _reached([part for each in own if isinstance(each, FUNCTIONS) for part in _parts(each)], seen)
        self._functions = {id(each): each for each in (*own, *behind) if self._is_copied(each)}

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the copy of the bound object with the identity ``key``."""
        if key in self._functions and key not in self:
            value = self._functions[key]
            if type(value) is FunctionType:
                self._copy(value)
            else:
                self[key] = self._weak_copy(value)
        return super().get(key, default)

    def _refers(self, value: Any) -> bool:
        """Return whether ``value`` holds a part of the module, itself or by what it holds."""
        return any(id(each) in self._targets for each in _reached([value], {}))

    def _is_copied(self, value: Any) -> bool:
        if type(value) in ProxyTypes:
            return True
        if isinstance(value, TABLES):
            return any(map(self._is_part, value.values() if isinstance(value, WeakValueDictionary) else value))
        if isinstance(value, ReferenceType):
            return not isinstance(value, KeyedRef) and self._is_part(value())
        return isinstance(value, FunctionType) and self._refers(value)

    def _is_part(self, value: Any) -> bool:
        """Return whether the module holds ``value``, or what it is a method of: a copy of anything else would die at once."""
        return id(value.__self__ if isinstance(value, MethodType) else value) in self._targets

    def _weak_part(self, value: Any) -> Any:
        return copy.deepcopy(value, self) if self._is_part(value) else value

    def _weak_copy(self, value: Any) -> Any:
        if type(value) in ProxyTypes:
            given = value.__repr__.__self__
            return proxy(copy.deepcopy(given, self)) if self._is_part(given) else value
        if isinstance(value, WeakSet):
            return type(value)(map(self._weak_part, value))
        if isinstance(value, WeakKeyDictionary | WeakValueDictionary):
            return type(value)({self._weak_part(key): self._weak_part(held) for key, held in value.items()})
        return type(value)(copy.deepcopy(value(), self))

    def _copy(self, function: FunctionType) -> None:
        cells = tuple(self._cells.setdefault(id(cell), CellType()) for cell in function.__closure__ or ())
        made = FunctionType(function.__code__, function.__globals__, function.__name__, None, cells)
        self[id(function)] = made  # stored before its parts, which may hold the function
        for own, given in zip(cells, function.__closure__ or (), strict=True):
            if _is_filled(given) and not _is_filled(own):
                own.cell_contents = self._part(given.cell_contents)
        made.__defaults__ = self._part(function.__defaults__)
        made.__kwdefaults__ = self._part(function.__kwdefaults__)
        made.__dict__.update({name: self._part(value) for name, value in vars(function).items()})
        for name in ("__qualname__", "__doc__", "__module__", "__annotations__"):
            setattr(made, name, getattr(function, name))

    def _part(self, value: Any) -> Any:
        return copy.deepcopy(value, self) if self._refers(value) else value


def _reached(todo: list[Any], seen: dict[int, Any], functions: bool = True) -> Iterator[Any]:
    """Yield ``todo`` and what they hold, by attributes, containers and, with ``functions``, closures, but nothing in ``seen``.

    ``seen``: objects by identity, to which each is added: a dropped one would leave its identity to a later one.
    """
    while todo:
        value = todo.pop()
        if id(value) not in seen:
            seen[id(value)] = value
            yield value
            if functions or not isinstance(value, FUNCTIONS):
                todo += _parts(value)


def _parts(value: Any) -> list[Any]:
    """Return what ``value`` holds: a function its cells and defaults, an object its attributes."""
    if type(value) in ProxyTypes or isinstance(value, type | ModuleType | Tensor):
        return []
    found = list((getattr(value, "__dict__", None) or {}).values())
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        found += [*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    elif isinstance(value, MethodType):
        found += [value.__self__, value.__func__]
    elif isinstance(value, ReferenceType):
        found.append(value())
    elif isinstance(value, partial):
        found += [value.func, *value.args, *value.keywords.values()]
    elif isinstance(value, dict):
        found += dict.values(value)
    else:
        # read as the built-in types do: e3nn's irreps are tuples with a length and an order of their own
        kinds: tuple[Any, ...] = LISTS
        found += next((kind.__iter__(value) for kind in kinds if isinstance(value, kind)), ())
    return found


def _is_filled(cell: CellType) -> bool:
    """Return whether the name of a cell has a value yet."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
