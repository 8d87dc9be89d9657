"""Evaluation of a trained module, chunk by chunk: no chunk's result depends on the chunks before it or along with it."""

import queue
from collections.abc import Sequence
from functools import partial

import numpy as np
from torch import nn

from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.module.copies import copied
from neuro_cli.core.seeds import Generators
from neuro_cli.scoring.isolation import InputCopies, Isolation, difference
from neuro_cli.task.base import Task


class TestChunks:
    """Test set of ``task`` for ``module``, which does not change.

    If a pass changes something that other chunks depend on, all chunks are evaluated again in the safe way, as with members.
    """

    __test__ = False  # no class of tests

    def __init__(self, task: Task, module: nn.Module, threads: Threads, isolation: Isolation) -> None:
        self._task, self._module, self._threads, self._isolation = task, module, threads, isolation
        self._episodes = task.scored_by != "examples"  # these begin afresh, and the task makes their inputs

    def sums(self, chunks: Sequence[int]) -> dict[int, np.ndarray]:
        """Return the sums (E,) of chunks, by their numbers."""
        while True:
            before = Generators()
            used = [self._copy() for _ in range(min(self._threads.count, len(chunks)))]
            rows = self._evaluated(chunks, used)
            again = partial(self._evaluated, chunks, used)
            if not self._isolation.see_draws(before, again) and not self._see_states(chunks, used):
                return rows

    def _copy(self) -> nn.Module:
        if self._episodes:
            return self._module
        result = copied(self._module)
        InputCopies(self._isolation, result)  # the test set is not the module's to write to
        return result

    def _evaluated(self, chunks: Sequence[int], modules: list[nn.Module]) -> dict[int, np.ndarray]:
        rows: dict[int, np.ndarray] = {}
        free: queue.SimpleQueue[nn.Module] = queue.SimpleQueue()
        for module in modules:
            free.put(module)

        def run(chunk: int) -> None:
            module = free.get()
            try:
                with self._isolation.seeded(0, chunk):
                    rows[chunk] = self._task.evaluate_chunk(self._copy() if self._isolation.copies else module, chunk)
            finally:
                free.put(module)

        if self._isolation.draws:
            for chunk in chunks:
                run(chunk)
        else:
            self._threads.passes(run, chunks)
        return rows

    def _see_states(self, chunks: Sequence[int], used: list[nn.Module]) -> bool:
        """Look at the modules that were used; True where state moved from chunk to chunk."""
        if self._isolation.copies or self._episodes or all(difference(self._module, each) is None for each in used):
            return False
        warm = self._copy()  # a cache is the same after any chunk
        self._evaluated(chunks[:1], [warm])
        if all(difference(warm, each) is None for each in used):
            return False
        self._isolation.see_states(warm, used)
        return True
