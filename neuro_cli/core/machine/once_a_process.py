"""What torch has once a process, so that two threads cannot use it side by side: derivatives, computed weights, switches.

``torch.func.jvp`` has one level: the first thread to leave it ends the derivatives of all, which are zeros then without an error.
``parametrize.cached()`` has one table, which copies of a module share too: one thread's weight served another thread's module.
A default type and the kernels of attention (``sdpa_kernel``) are those of all threads, and end as the last thread found them.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._functorch import predispatch
from torch.nn.utils import parametrize

SWITCHES = (
    "_set_default_dtype",
    "_set_sdp_use_math",
    "_set_sdp_use_flash",
    "_set_mkldnn_enabled",
    "_set_float32_matmul_precision",
)


class InTurnError(RuntimeError):
    """Raised where a thread begins to use what torch has once a process, while other threads work."""


class _Caching:
    """In place of the number of contexts of ``parametrize.cached()``, where none may begin."""

    def __init__(self, refused: threading.Event) -> None:
        self._refused = refused

    def __bool__(self) -> bool:
        return False

    def __iadd__(self, _: int) -> "_Caching":
        self._refused.set()
        raise InTurnError("parametrize.cached() on several threads")


class OnceAProcess:
    """Contexts of any threads, nested too, in which none of this begins: who tries gets an InTurnError, and is noted."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._enter, self._refused = predispatch._enter_dual_level, threading.Event()
        self._switches = {name: getattr(torch._C, name) for name in SWITCHES}

    def _refuse(self) -> int:
        self._refused.set()
        raise InTurnError("forward derivatives (torch.func.jvp) on several threads")

    def _refuse_switch(self, *_: Any) -> None:
        self._refused.set()
        raise InTurnError("a switch of the process on several threads")

    @contextmanager
    def refused(self) -> Iterator[threading.Event]:
        """Return such a context. Yields what is set once somebody tried, in this context or in another one meanwhile."""
        with self._lock:
            if not self._inside:
                self._refused, self._caching = threading.Event(), parametrize._cache_enabled
                predispatch._enter_dual_level = self._refuse
                for name in SWITCHES:
                    setattr(torch._C, name, self._refuse_switch)
                parametrize._cache_enabled = _Caching(self._refused)  # type: ignore[assignment]
            self._inside += 1
            noted = self._refused
        try:
            yield noted
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    predispatch._enter_dual_level, parametrize._cache_enabled = self._enter, self._caching
                    for name, switch in self._switches.items():
                        setattr(torch._C, name, switch)


once_a_process = OnceAProcess()


@contextmanager
def nothing_cached() -> Iterator[None]:
    """Return a context without the weights that ``parametrize.cached()`` around it has: another member's are others."""
    if not parametrize._cache_enabled:
        yield
        return
    before = parametrize._cache_enabled, parametrize._cache
    parametrize._cache_enabled, parametrize._cache = 0, {}
    try:
        yield
    finally:
        parametrize._cache_enabled, parametrize._cache = before
