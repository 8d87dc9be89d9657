"""State that torch has once a process, so two threads cannot use it at the same time: derivatives, computed weights, switches.

``torch.func.jvp`` has one level: the first thread to leave it ends the derivatives of all, which then are zeros without an
error. ``parametrize.cached()`` has one table, which copies of a module share too: one thread's weight served another thread's
module. A default type and the kernels of attention (``sdpa_kernel``) are those of all threads, and end as the last thread found
them.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from operator import attrgetter
from typing import Any

import torch
from torch.nn.utils import parametrize

# functions that set a value, their last argument, and those that give it: torch.compile sets what is set already
SETTERS = (
    ("_functorch.predispatch._enter_dual_level", None),
    ("_C._set_default_dtype", "get_default_dtype"),
    ("_C._set_default_tensor_type", None),
    ("_C._set_deterministic_algorithms", "_C._get_deterministic_algorithms"),
    ("_C._set_sdp_use_math", "_C._get_math_sdp_enabled"),
    ("_C._set_sdp_use_flash", "_C._get_flash_sdp_enabled"),
    ("_C._set_mkldnn_enabled", "_C._get_mkldnn_enabled"),
    ("_C._set_float32_matmul_precision", "_C._get_float32_matmul_precision"),
    ("_C._set_fp32_precision_setter", "_C._get_fp32_precision_getter"),
)
CACHING = "nn.utils.parametrize._cache_enabled"  # number of contexts of cached()


class InTurnError(RuntimeError):
    """Raised where a thread begins to use what torch has once a process, while others score too."""


class _Shared:
    """Context of the process: the first of its users enters it, and the last one leaves it."""

    def __init__(self, make: Callable[[], AbstractContextManager[None]]) -> None:
        self._make, self._lock, self._users, self._left = make, threading.Lock(), 0, ExitStack()

    @contextmanager
    def entered(self) -> Iterator[None]:
        with self._lock:
            if not self._users:
                self._left.enter_context(self._make())
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._left.close()


class _Contexts(threading.local):
    """Number of contexts of ``parametrize.cached()`` that this thread has begun."""

    count = 0


class _Caching:
    """In place of the number of all threads' contexts of ``parametrize.cached()``: each is its own thread's alone."""

    def __init__(self, total: int) -> None:
        self.total, self.here, self._lock = total, _Contexts(), threading.Lock()

    def __bool__(self) -> bool:
        return self.here.count > 0

    def __iadd__(self, number: int) -> "_Caching":
        once_a_process.refuse("parametrize.cached()")
        return self._moved(number)

    def __isub__(self, number: int) -> "_Caching":
        return self._moved(-number)

    def _moved(self, number: int) -> "_Caching":
        with self._lock:
            self.total += number
        self.here.count = max(0, self.here.count + number)  # 0: of one that began before
        return self


@contextmanager
def _caching_apart() -> Iterator[None]:
    table, caching = parametrize._cache, _Caching(parametrize._cache_enabled)
    parametrize._cache_enabled, parametrize._cache = caching, {}  # type: ignore[assignment]
    try:
        yield
    finally:
        if parametrize._cache_enabled is caching:
            parametrize._cache_enabled = caching.total
        parametrize._cache = table if parametrize._cache_enabled else {}


_apart = _Shared(_caching_apart)


@contextmanager
def nothing_cached() -> Iterator[None]:
    """Return a context without the weights that ``parametrize.cached()`` around it or of others has: a member has its own."""
    with _apart.entered():
        here = getattr(parametrize._cache_enabled, "here", _Contexts())
        before, here.count = here.count, 0
        try:
            yield
        finally:
            here.count = before


class OnceAProcess:
    """Functions of torch that refuse threads which score, in contexts of any threads, nested too, and no other threads."""

    def __init__(self) -> None:
        self._here, self._replaced = threading.local(), _Shared(self._replace)

    @contextmanager
    def scoring(self, noted: threading.Event) -> Iterator[None]:
        """Return a context in which this thread is refused; ``noted`` is set then."""
        before, self._here.noted = getattr(self._here, "noted", None), noted
        try:
            yield
        finally:
            self._here.noted = before

    @contextmanager
    def refused(self) -> Iterator[threading.Event]:
        """Return a context of such functions. Yields what :meth:`scoring` takes."""
        with _apart.entered(), self._replaced.entered():
            yield threading.Event()

    @contextmanager
    def _replace(self) -> Iterator[None]:
        places = [(*_place(setter), getter) for setter, getter in SETTERS]
        before = [(module, name, getattr(module, name)) for module, name, _ in places]
        ours = [self._refusing(name, getattr(module, name), getter) for module, name, getter in places]
        for (module, name, _), function in zip(before, ours, strict=True):
            setattr(module, name, function)
        yield
        for (module, name, function), own in zip(before, ours, strict=True):
            if getattr(module, name) is own:  # else the script's own, put there meanwhile
                setattr(module, name, function)

    def refuse(self, name: str) -> None:
        """Raise InTurnError where this thread is :meth:`scoring`."""
        noted = getattr(self._here, "noted", None)
        if noted is not None:
            noted.set()
            raise InTurnError(f"{name} on several threads")

    def _refusing(self, name: str, function: Callable[..., Any], getter: str | None) -> Callable[..., Any]:
        present = getter and attrgetter(getter)(torch)

        def called(*args: Any, **options: Any) -> Any:
            if not present or not args or present(*args[:-1]) != args[-1]:
                self.refuse(name)
            return function(*args, **options)

        return called


def _place(path: str) -> tuple[Any, str]:
    """Return the module of a path within torch, and the name in it."""
    module, _, name = path.rpartition(".")
    return attrgetter(module)(torch), name


def _lacks(path: str) -> bool:
    try:
        attrgetter(path)(torch)
    except AttributeError:
        return True
    return False


once_a_process = OnceAProcess()
_wanted = [CACHING, *(path for pair in SETTERS for path in pair if path is not None)]
_absent = next(filter(_lacks, _wanted), None)
missing = _absent and f"torch {torch.__version__} has no torch.{_absent}"
