"""Isolation of members: no member's score depends on the members that were scored before it or along with it.

A thread scores one member after the other with one module. Once a generation, at little cost, the scorer checks what else than
parameters the passes changed. If anything, this generation is scored again, and all later ones are scored, in the safe way:

    state of the module (attributes, buffers, caches)    every member gets a fresh copy of the module
    its input                                            every member gets a copy
    random numbers of torch, numpy or Python             members are scored in turn, each seeded by its address

The safe way gives the same scores where nothing changes, so ranks need not agree on the generation in which it begins.
"""

import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.hooks import RemovableHandle

from neuro_cli.core.machine.pages import unwritten
from neuro_cli.core.module.copies import in_same_pages
from neuro_cli.core.seeds import Generators, number_seed, seeded
from neuro_cli.scoring.candidate import UNSUPPORTED

log = logging.getLogger(__name__)

CODE = (FunctionType, BuiltinFunctionType, MethodType, ModuleType, type, partial, torch.fx.Graph)
LISTS = (list, tuple, deque)
# methods that give the parts of a sparse tensor
BY_ROWS, BY_COLUMNS = ("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values")
SPARSE = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: BY_ROWS,
    torch.sparse_bsr: BY_ROWS,
    torch.sparse_csc: BY_COLUMNS,
    torch.sparse_bsc: BY_COLUMNS,
}
MISSING = object()
# attributes of every module: tables of parameters and the like, compared by themselves, and of hooks, which are functions
STRUCTURE = frozenset(vars(nn.Module())) - {"training"}


class Isolation:
    """Kinds of change that passes of a run were seen to make: in the module's state, in their inputs, in random generators.

    ``inputs`` is None before the first generation.
    """

    def __init__(self) -> None:
        self.copies, self.draws = False, False
        self.inputs: bool | None = None

    @property
    def settled(self) -> bool:
        """Return whether members need no care, as no pass was seen to change anything."""
        return not self.copies and not self.draws and self.inputs is False

    def see_states(self, begins: nn.Module, used: Iterable[nn.Module]) -> None:
        """Note that members left their modules in another state than the one in which the first member began."""
        name = next(filter(None, (difference(begins, module) for module in used)))
        self.copies = True
        log.warning("model: %s changes in a forward pass: every member gets a fresh copy, slower", name)

    def see_inputs(self, given: Iterable[Tensor]) -> None:
        """Note whether a member wrote to what it was given, copies that were written to by nobody else."""
        if not self.inputs and any(not tensor.is_inference() and tensor._version for tensor in given):
            self.inputs = True
            log.warning("model: a forward pass changes its input in place: every member gets a copy")

    def see_draws(self, before: Generators, again: Callable[[], object]) -> bool:
        """Compare the process's random generators with their state ``before``; True where members drew from them unseeded.

        Gives them back their state. ``again`` scores once more, to tell these draws from those of other threads.
        """
        names = [] if self.draws else before.drawn(again)
        if not names:
            return False
        self.draws = True
        log.warning(
            "scoring draws random numbers (%s): members are scored in turn, each seeded by its address, slower",
            ", ".join(names),
        )
        return True

    def seeded(self, seed: int, *address: int) -> AbstractContextManager[None]:
        """Return a context of a member's passes: random numbers are those of its ``address``, where a pass draws any."""
        return drawing(seed, *address) if self.draws else nullcontext()


def drawing(seed: int, *address: int) -> AbstractContextManager[None]:
    """Return a context in which torch, numpy and Python draw from the seed of an ``address``; outside nothing was drawn.

    One thread at a time.
    """
    return seeded(number_seed(seed, *address), gpus=torch.cuda.is_initialized())


class InputCopies:
    """Hooks of a member's module that pass it copies of its input, and report writes to them to an ``isolation``."""

    def __init__(self, isolation: Isolation | None, module: nn.Module) -> None:
        self._isolation, self._given = isolation, list[Tensor]()
        self._handles: list[RemovableHandle] = []
        if not isinstance(module, torch.jit.ScriptModule):  # a scripted module takes no hooks
            before = module.register_forward_pre_hook(self._before, with_kwargs=True)
            self._handles = [before, module.register_forward_hook(self._after, always_call=True)]

    def _before(self, _: nn.Module, args: Any, kwargs: Any) -> Any:
        args, kwargs = tree_map(lambda value: value.clone() if isinstance(value, Tensor) else value, (args, kwargs))
        self._given = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        return args, kwargs

    def _after(self, *_: Any) -> None:
        if self._isolation is not None:
            self._isolation.see_inputs(self._given)
        self._given = []

    def remove(self) -> None:
        """Take the hooks away: from now on the module gets its input itself."""
        for handle in self._handles:
            handle.remove()


def difference(reference: nn.Module, used: nn.Module) -> str | None:
    """Name the first attribute, buffer or frozen parameter that differs between two modules, None where none does."""
    return next(differences(reference, used, {}), None)


def differences(reference: nn.Module, used: nn.Module, seen: dict[int, Any]) -> Iterator[str]:
    """Return the names of attributes, buffers and frozen parameters that differ; evolved parameters are not compared.

    ``seen``: as of :func:`same`.
    """
    parts, others = dict(reference.named_modules()), dict(used.named_modules())
    if parts.keys() != others.keys():
        yield f"the submodules of {type(reference).__name__}"
        return
    seen |= {id(part): others[path] for path, part in parts.items()}  # a part may hold its parent
    for path, part in parts.items():
        for name in _differing(part, others[path], seen):
            yield f"{path}.{name} of {type(part).__name__}" if path else f"{name} of {type(part).__name__}"


def _differing(one: nn.Module, other: nn.Module, seen: dict[int, Any]) -> Iterator[str]:
    """Return the names of what differs between two modules, submodules left out. Most are compared by identity alone."""
    for mine, theirs in zip(_tables(one), _tables(other), strict=True):
        for name, value in mine.items():
            counterpart = theirs.get(name, MISSING)
            if value is counterpart or name in STRUCTURE:
                continue
            if not same(value, counterpart, seen):
                yield name
        if len(mine) != len(theirs):
            yield from theirs.keys() - mine.keys()


def _tables(part: nn.Module) -> tuple[dict[str, Any], ...]:
    if not isinstance(part, torch.jit.ScriptModule):
        return part.__dict__, part._buffers, part._parameters
    # its tables are wrappers, and a pass sets its attributes where its own dictionary does not have them
    kind = getattr(part, "_concrete_type", None)
    attributes = vars(part) if kind is None else {name: getattr(part, name) for name in kind.get_attributes()}
    evolved = {name for name, tensor in part._parameters.items() if tensor is not None and tensor.requires_grad}
    tables = (attributes, dict(part._buffers.items()), dict(part._parameters.items()))
    return tuple({name: value for name, value in table.items() if name not in evolved} for table in tables)


def same(one: Any, other: Any, seen: dict[int, Any]) -> bool:
    """Return whether two values are equal down to their parts; what cannot be compared (functions, locks) is.

    ``seen``: values under comparison or compared before, by identity, so that circles end.
    """
    if one is other or (id(one) in seen and seen[id(one)] is other):
        return True
    if type(one) is not type(other):
        return False
    seen[id(one)] = other
    for kind, equal in KINDS:
        if isinstance(one, kind):
            return equal(one, other, seen)
    if isinstance(one, CODE):
        return True
    slots = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
    mine, theirs = (
        getattr(value, "__dict__", {}) | {name: getattr(value, name, None) for name in slots} for value in (one, other)
    )
    return same(mine, theirs, seen)


def _is_evolved(value: Any) -> bool:
    return isinstance(value, nn.Parameter) and value.requires_grad


def _same_tensors(one: Tensor, other: Tensor, _: dict[int, Any]) -> bool:
    if _is_evolved(one):
        return True  # a member's own
    if in_same_pages(one, other) and unwritten(one) and unwritten(other):
        return True  # reading the numbers of a language model takes 0.3 s
    if (one.shape, one.dtype, one.layout) != (other.shape, other.dtype, other.layout):
        return False
    if hasattr(one, "__tensor_flatten__") and hasattr(other, "__tensor_flatten__"):  # quantised weights are tensors of tensors
        (mine, rest), (theirs, others) = one.__tensor_flatten__(), other.__tensor_flatten__()
        parts = ((getattr(one, name), getattr(other, name)) for name in mine)  # a pass may add one
        return mine == theirs and same(rest, others, _) and all(_same_tensors(*pair, _) for pair in parts)
    if one.layout in SPARSE:  # torch compares none of these
        return all(_same_tensors(getattr(one, part)(), getattr(other, part)(), _) for part in SPARSE[one.layout])
    try:
        return torch.equal(one, other) or bool(((one == other) | ((one != one) & (other != other))).all())
    except UNSUPPORTED:  # a tensor that escaped from a map, or of a kind that torch does not compare
        return False


def _same_arrays(one: np.ndarray, other: np.ndarray, _: dict[int, Any]) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")


def _same_numbers(one: Any, other: Any, _: dict[int, Any]) -> bool:
    return bool(one == other or (one != one and other != other))


def _same_tables(one: Mapping[Any, Any], other: Mapping[Any, Any], seen: dict[int, Any]) -> bool:
    # keys that are objects of their own compare by identity: copies of them are met in their order
    if len(one) != len(other):
        return False
    pairs = zip(one.items(), other.items(), strict=True)
    return all(same(a, b, seen) and same(left, right, seen) for (a, left), (b, right) in pairs)


def _same_lists(one: Any, other: Any, seen: dict[int, Any]) -> bool:
    # read as the built-in types do: e3nn's irreps are tuples whose own length is an error
    base = next(kind for kind in LISTS if isinstance(one, kind))
    mine, theirs = (list(base.__iter__(value)) for value in (one, other))
    return len(mine) == len(theirs) and all(same(a, b, seen) for a, b in zip(mine, theirs, strict=True))


def _same_sets(one: Set[Any], other: Set[Any], _: dict[int, Any]) -> bool:
    # copies of objects with identities of their own are never equal: only their number is compared
    return len(one) == len(other) and (one == other or not all(isinstance(each, int | float | str | bytes) for each in one))


def _same_generators(one: Any, other: Any, seen: dict[int, Any]) -> bool:
    read = {torch.Generator: "get_state", random.Random: "getstate"}
    for kind, name in read.items():
        if isinstance(one, kind):
            return same(getattr(one, name)(), getattr(other, name)(), seen)
    return same(one.bit_generator.state, other.bit_generator.state, seen)


KINDS: tuple[tuple[Any, Callable[[Any, Any, dict[int, Any]], bool]], ...] = (
    (Tensor, _same_tensors),
    (nn.Module, lambda one, other, seen: next(differences(one, other, seen), None) is None),
    (np.ndarray, _same_arrays),
    ((bool, int, float, complex, str, bytes, torch.dtype, torch.device, np.generic), _same_numbers),
    (Mapping, _same_tables),
    (LISTS, _same_lists),
    (Set, _same_sets),
    ((torch.Generator, random.Random, np.random.Generator), _same_generators),
)
