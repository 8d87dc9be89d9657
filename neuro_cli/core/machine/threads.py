"""Python threads that run compiled code side by side (torch and the kernels release the interpreter lock), in the same modes."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeVar

import torch

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.machine.once_a_process import missing, nothing_cached, once_a_process

T = TypeVar("T")
log = logging.getLogger(__name__)

IN_TURN = (
    "forward derivatives (torch.func.jvp), parametrize.cached() and switches as the default dtype are of one thread at a time"
)
OUTSIDE = "a pass writes to what lies outside of its member, which threads have in common"

AUTOCAST = ("cpu", "cuda")  # device types


@dataclass(frozen=True)
class Modes:
    """Modes of torch that each thread has for itself, as they are at rest: ``autocast`` is a type by device type.

    ``device``: of new tensors that name none.
    """

    gradients: bool = True
    inference: bool = False
    autocast: dict[str, torch.dtype] = field(default_factory=dict)
    device: torch.device = torch.device("cpu")  # noqa: RUF009 (a constant)

    @classmethod
    def present(cls) -> "Modes":
        """Return torch's modes of this thread."""
        autocast = {kind: torch.get_autocast_dtype(kind) for kind in AUTOCAST if torch.is_autocast_enabled(kind)}
        return cls(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast, torch.get_default_device())

    def are_present(self) -> bool:
        """Return whether this thread has these modes, by cheaper calls than :meth:`present`, for modes without autocast."""
        if self.autocast or any(map(torch.is_autocast_enabled, AUTOCAST)):
            return False
        same = (self.gradients, self.inference) == (torch.is_grad_enabled(), torch.is_inference_mode_enabled())
        # the device of a new tensor: torch.get_default_device() walks through all modes in Python
        return same and self.device == torch.empty(0).device

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Return a context with these modes on this thread. Autocast caches no weights, which the next member overwrites."""
        with ExitStack() as modes:
            if self.inference != torch.is_inference_mode_enabled():
                modes.enter_context(torch.inference_mode(self.inference))
            if self.gradients != torch.is_grad_enabled():
                modes.enter_context(torch.set_grad_enabled(self.gradients))
            for kind in AUTOCAST:
                dtype = self.autocast.get(kind)
                if dtype is not None or torch.is_autocast_enabled(kind):
                    modes.enter_context(torch.autocast(kind, dtype, enabled=dtype is not None, cache_enabled=False))
            if self.device != torch.get_default_device():
                modes.enter_context(self.device)
            yield


REST = Modes()


class Threads:
    """Pool of ``count`` threads, each with one intra-operator thread, so a result never depends on ``count``.

    The calling thread is one of them: a worker's start takes as long as a small piece of work. The others work in its modes.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        # the inter-operator default of OpenMP is per thread: the main thread's setting does not reach the workers
        self._pool = ThreadPoolExecutor(count - 1, "neuro", lambda: torch.set_num_threads(1)) if count > 1 else None
        torch.set_num_threads(1)
        self._in_turn = False  # passes of modules

    def passes(
        self,
        function: Callable[[T], None],
        items: Iterable[T],
        repeats: bool = True,
        wrote: Callable[[], str | None] | None = None,
    ) -> None:
        """Call ``function``, which runs modules, on every item: in turn where these use what a process has once.

        ``wrote``: names such a thing that the calls have written to. ``repeats``: what was called before is called again
        then; without that, raises ConfigError.
        """
        todo = list(items)
        if missing is not None and self._pool is not None and not self._in_turn:
            log.warning("%s, by which neuro sees what is of one thread at a time: members are scored in turn, slower", missing)
            self._in_turn = True
        if self._pool is None or self._in_turn or len(todo) < 2:
            for item in todo:
                function(item)
            return

        error: Exception | None = None
        with once_a_process.refused() as wanted:

            def scoring(item: T) -> None:
                with once_a_process.scoring(wanted):
                    function(item)

            try:
                self.map(scoring, todo)
            except Exception as raised:
                error = raised
        reason = IN_TURN if wanted.is_set() else None
        if reason is None and wrote is not None and (what := wrote()):
            reason = f"{OUTSIDE} ({what})"
        if reason is None:
            if error is not None:
                raise error
            return
        if not repeats:
            raise ConfigError("threads", self.count, f"1: {reason}") from error
        log.warning("%s: members are scored in turn, slower", reason)
        self._in_turn = True
        self.passes(function, todo)

    def map(self, function: Callable[[T], None], items: Iterable[T]) -> None:
        """Call ``function`` on every item by the threads; the first exception is raised after all have ended."""
        left = deque(enumerate(items))
        workers = min(self.count, len(left)) - 1
        if self._pool is None or workers < 1:
            for _, item in left:
                function(item)
            return
        failed: list[tuple[int, Exception]] = []
        modes = Modes.present()

        def work() -> None:
            with modes.entered(), suppress(IndexError):  # the queue is empty
                while True:
                    number, item = left.popleft()
                    try:
                        function(item)
                    except Exception as error:
                        failed.append((number, error))

        futures = [self._pool.submit(copy_context().run, work) for _ in range(workers)]
        try:
            work()
        finally:
            left.clear()  # nothing more begins after an interrupt
            for future in futures:
                if not future.cancel():  # one that has not begun would find nothing to do, and may wait for this very thread
                    future.result()
        if failed:
            raise min(failed, key=itemgetter(0))[1]

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


class threads_kept(AbstractContextManager[None]):
    """Context of work of ours on a thread of the user's: one intra-operator thread, torch's modes at rest; after it as before."""

    def __enter__(self) -> None:
        self._before = torch.get_num_threads()
        if self._before != 1:
            torch.set_num_threads(1)
        self._left = ExitStack()
        self._left.enter_context(nothing_cached())
        if not REST.are_present():
            self._left.enter_context(REST.entered())

    def __exit__(self, *raised: Any) -> None:
        try:
            self._left.__exit__(*raised)
        finally:
            if self._before != 1:
                torch.set_num_threads(self._before)
