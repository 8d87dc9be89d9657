"""Restores what a pass changed in a module besides parameters: buffers, attributes, contents of containers.

A pass for many members leaves their tensors there (a cache of computed weights, the last state), which are nobody's own.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from neuro_cli.core.module.copies import cached_properties

# attributes of every module that no forward pass changes
_EVERY = frozenset(name for name in vars(nn.Module()) if name != "_buffers" and "hooks" not in name)
_Saved = list[tuple[dict[str, Any], dict[str, Any], list[tuple[Any, Any]]]]


@contextmanager
def kept(module: nn.Module, statistics: bool = False) -> Iterator[None]:
    """Return a context after which ``module`` has the attributes and the numbers of its buffers that it had before.

    Dictionaries that are called caches are empty at first, and cached properties have no value: they come from other parameters.
    ``statistics``: those of norms too, which passes for many members never change.
    """
    saved = _saved(module)
    buffers = [
        (buffer, buffer.clone())
        for part in module.modules()
        for buffer in part.buffers(recurse=False)
        if statistics or not isinstance(part, _NormBase) or not buffer.dim()  # the count of batches
    ]
    for _, before, _ in saved:
        for cache in _caches(before):
            cache.clear()
    for part in module.modules():
        for name in cached_properties(part):
            del vars(part)[name]
    try:
        yield
    finally:
        for now, before, containers in saved:
            for name in now.keys() - before.keys() - _EVERY:
                del now[name]
            now.update({name: value for name, value in before.items() if now.get(name) is not value})
            for container, content in containers:
                if _parts(container) != _parts(content):
                    _refill(container, content)
        for buffer, numbers in buffers:
            # do not wait for a GPU; sparse numbers cannot be compared; an expanded buffer cannot have been written
            if buffer.device.type != "cpu" or buffer.layout is not torch.strided or not torch.equal(buffer, numbers):
                buffer.data.copy_(numbers)


def has_caches(module: nn.Module) -> bool:
    """Return whether the module has dictionaries that are called caches, or cached properties."""
    return any(True for part in module.modules() for _ in (*_caches(vars(part)), *cached_properties(part)))


def _caches(attributes: dict[str, Any]) -> Iterator[dict[Any, Any]]:
    return (value for name, value in attributes.items() if "cache" in name and isinstance(value, dict))


def _saved(module: nn.Module) -> _Saved:
    result = []
    for part in module.modules():
        before = {name: value for name, value in vars(part).items() if name not in _EVERY}
        kinds = (dict, list, set, deque)
        containers = [(value, value.copy() if value else ()) for value in before.values() if isinstance(value, kinds)]
        result.append((vars(part), before, containers))
    return result


def _parts(container: Any) -> list[int]:
    """Return the identities of what a container holds; one that holds the same is not written to: it may be frozen."""
    values = chain.from_iterable(container.items()) if isinstance(container, dict) else container
    return [id(value) for value in values]


def _refill(container: Any, content: Any) -> None:
    if isinstance(container, list):
        container[:] = content
        return
    container.clear()
    (container.extend if isinstance(container, deque) else container.update)(content)


def without_dropout(module: nn.Module) -> nn.Module:
    """Set every share that layers drop to 0, by the names of attributes; gives the module back."""
    for part in module.modules():
        share = {"p"} if isinstance(part, _DropoutNd) or type(part).__name__ == "StochasticDepth" else set()
        for name, value in list(vars(part).items()):
            if isinstance(value, float) and ("drop" in name or name in share):
                setattr(part, name, 0.0)
    return module
