"""Copies of the user's module. All copies come from here: a module that cannot be copied is one error before anything runs."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, count
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.pages import Pages
from neuro_cli.core.module.bound_functions import FunctionCopies

PAGES = "neuro_pages"  # attribute of a parameter: its pages, and its place among their tensors
COMPUTED = "neuro_computed"  # attribute of a copy of a computed tensor: name of the evolved parameter that it was computed from
COPY = "neuro_copy"  # attribute of an evolved parameter of a copy, and of what is computed from it: the copy's number, its name
_NUMBERS = count()
# what each copy was made from, the latest first
_ORIGINALS: "WeakKeyDictionary[nn.Module, tuple[ref[nn.Module], ...]]" = WeakKeyDictionary()


def in_pages(parameters: Sequence[nn.Parameter], pages: Pages) -> None:
    """Let frozen ``parameters`` be views of ``pages``, which :func:`copied` gives to copies too."""
    for place, (parameter, view) in enumerate(zip(parameters, pages.views(), strict=True)):
        parameter.data = view
        setattr(parameter, PAGES, (pages, place))


def has_pages(module: nn.Module) -> bool:
    """Return whether parameters of ``module`` are shared with its copies :func:`in_pages`."""
    return any(PAGES in vars(parameter) for parameter in module.parameters())


def in_same_pages(one: Any, other: Any) -> bool:
    """Return whether two values are parameters that view the same pages at the same place."""
    place = vars(one).get(PAGES) if type(one) is type(other) is nn.Parameter else None
    return place is not None and place == vars(other).get(PAGES)


def copied(module: nn.Module, dtype: torch.dtype | None = None, but: Iterable[nn.Parameter] = ()) -> nn.Module:
    """Copy a module with all that it holds. Raises UserError for what Python cannot copy, such as locks and open files.

    ``but``: parameters whose numbers the copy shares. Parameters :func:`in_pages` share them with the copy too, in ``dtype`` if
    it is given, until one of the two is written to.
    """
    memo: dict[int, Any] = {}
    for parameter in but:
        memo[id(parameter)] = nn.Parameter(parameter.detach(), parameter.requires_grad)
        memo[id(parameter)].__dict__.update(vars(parameter))
    memo |= _in_same_pages(module, dtype)
    for parameter in module.parameters():
        if parameter.layout is not torch.strided and id(parameter) not in memo:
            memo[id(parameter)] = nn.Parameter(parameter.detach().clone(), parameter.requires_grad)
    functions = FunctionCopies(module, memo)
    try:
        with _AnyTensor(module):
            result: nn.Module = copy.deepcopy(module, functions)
    except Exception as error:  # each kind of object raises its own
        reason = " ".join(str(error).split())
        raise UserError(
            f"model: {type(module).__name__} cannot be copied, as every member needs a copy: {reason}; "
            "keep what it names outside of the module, or give its class a __deepcopy__"
        ) from error
    for part in result.modules():
        for name in cached_properties(part):
            del vars(part)[name]  # the copy computes it from its own parameters
    for parameter, given in zip(result.parameters(), module.parameters(), strict=True):
        if not parameter.is_leaf:  # a copy of a scripted module has the graph of its copying
            parameter.detach_().requires_grad_(given.requires_grad)
    number = next(_NUMBERS)
    for name, parameter in result.named_parameters():
        if parameter.requires_grad:
            setattr(parameter, COPY, (number, name))
    _ORIGINALS[result] = (ref(module), *_ORIGINALS.get(module, ()))
    return result


def cached_properties(part: nn.Module) -> list[str]:
    """Return the names of properties by ``functools.cached_property`` whose values ``part`` has already."""
    return [name for name in vars(part) if isinstance(getattr(type(part), name, None), cached_property)]


def originals(module: nn.Module) -> list[nn.Module]:
    """Return what ``module`` was :func:`copied` from, the modules that still live: the last copy first, the user's own last."""
    return [original for each in _ORIGINALS.get(module, ()) if (original := each()) is not None]


class _AnyTensor(TorchFunctionMode):
    """Copies tensors that deepcopy refuses, wherever they lie: computed ones and sparse ones.

    ``nn.utils.weight_norm`` and ``prune`` keep a computed weight as an attribute, other modules caches in objects of their own.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._names = {id(parameter): name for name, parameter in module.named_parameters() if parameter.requires_grad}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__deepcopy__:
            value, memo = args
            if id(value) not in memo and (not value.is_leaf or value.layout is not torch.strided):
                memo[id(value)] = made = value.detach().clone()
                name = source_of(value, self._names) or vars(value).get(COMPUTED)
                if name is not None:
                    setattr(made, COMPUTED, name)
                return made
        return func(*args, **(kwargs or {}))


def source_of(tensor: Tensor, names: Mapping[int, str]) -> str | None:
    """Return the name of a parameter that ``tensor`` was computed from with gradients, ``names`` by identity, None for none."""
    todo, seen = [tensor.grad_fn], set[Any]()
    while todo:
        step = todo.pop()
        if step is not None and step not in seen:
            seen.add(step)
            if (name := names.get(id(getattr(step, "variable", None)))) is not None:
                return name
            todo += [earlier for earlier, _ in step.next_functions]
    return None


def unshared(tensor: Tensor) -> bool:
    """Return whether nothing else has a view of a tensor's memory: no other tensor, array or process."""
    room = tensor.untyped_storage()
    count = getattr(torch._C, "_storage_Use_Count", None)
    plain = tensor.device.type == "cpu" and tensor.is_contiguous() and not tensor.is_inference() and not tensor.is_shared()
    # two: the tensor, and the name of its memory here; an array's memory cannot be resized
    return plain and room.resizable() and count is not None and count(room._cdata) == 2


def _in_same_pages(module: nn.Module, dtype: torch.dtype | None) -> dict[int, Any]:
    """Return new parameters for those of ``module`` that lie in pages, by identity."""
    memo: dict[int, Any] = {}
    mapped: dict[int, tuple[Pages, list[Tensor]]] = {}
    for parameter in module.parameters():
        if PAGES not in vars(parameter):
            continue
        pages, place = getattr(parameter, PAGES)
        if id(pages) not in mapped:
            other = pages if dtype is None else pages.cast(dtype)
            mapped[id(pages)] = other, other.views()
        other, views = mapped[id(pages)]
        memo[id(parameter)] = twin = nn.Parameter(views[place], requires_grad=False)
        setattr(twin, PAGES, (other, place))
    return memo


def state_of(module: nn.Module) -> Iterator[Tensor]:
    """Return parameters and buffers, which copies of a module have."""
    return chain(module.parameters(), module.buffers())


def attributes_of(module: nn.Module) -> Iterator[tuple[str, Tensor | np.ndarray]]:
    """Return tensors and arrays that a module's parts hold as attributes, also in lists and dictionaries, by name.

    Not those that torch keeps there for itself: ``spectral_norm`` and ``prune`` of ``torch.nn.utils`` have the weight NAME of a
    parameter NAME_orig, which every pass computes, and recurrent layers a list of their weights.
    """
    for path, part in module.named_modules():
        for key, value in vars(part).items():
            if key in ("_parameters", "_buffers", "_modules", "_flat_weights") or f"{key}_orig" in part._parameters:
                continue
            for leaf in tree_leaves(value):
                if isinstance(leaf, Tensor | np.ndarray) and not isinstance(leaf, nn.Parameter):
                    yield f"{path}.{key}" if path else key, leaf


def pieces_of(tensor: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors that hold the numbers of ``tensor``, of a sparse one its places and values."""
    if tensor.layout is torch.strided:
        return (tensor,)
    each = tensor.to_sparse().coalesce()
    return each.indices(), each.values()


def own_memory(tensors: Iterable[Tensor]) -> None:
    """Give expanded tensors (a stride of 0) memory for each number, as writing to them needs."""
    for tensor in tensors:
        if tensor.layout is not torch.strided:
            continue
        strides = tensor.stride()
        if 0 in strides and any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, strides, strict=True)):
            tensor.data = tensor.data.contiguous()
