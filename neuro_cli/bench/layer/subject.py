"""A case of ``neuro bench layer``, ready to run: module, weights, examples in chunks, threads."""

import statistics
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import torch
from torch import nn

from neuro_cli.bench.layer.cases import Case
from neuro_cli.bench.table import in_turn
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.factory.instantiate import make
from neuro_cli.sampler.base import Sampler
from neuro_cli.scoring.candidate import Candidate
from neuro_cli.scoring.chunk_size import chunk_rows

TRIALS = 2  # rounds that decide which unperturbed pass is faster


class Subject:
    """Case on ``device`` in ``precision`` with ``threads`` threads."""

    def __init__(self, case: Case, device: torch.device, precision: torch.dtype, threads: int) -> None:
        self.case, self.device, self.precision = case, device, precision
        self.threads = Threads(threads)
        self.layout = ParameterLayout(case.module)
        self.centre = self.layout.flatten(case.module).to(device)
        case.module.to(device)
        self.module = self.copy()
        generator, shape = torch.Generator().manual_seed(1), (case.examples, *case.shape)
        if case.tokens:
            x = torch.randint(case.tokens, shape, generator=generator).to(device)
        else:
            x = torch.randn(shape, generator=generator).to(device, precision)
        self.x = x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
        self.rows = chunk_rows(case.largest or self._largest(), device, case.examples)

    def _largest(self) -> int:
        """Return the number of values in a layer's largest output for one example."""
        sizes = []
        hooks = [part.register_forward_hook(lambda _m, _i, out: sizes.append(out.numel())) for part in self.module.modules()]
        with torch.no_grad():
            self.module(self.x[:1])
        for hook in hooks:
            hook.remove()
        return max(sizes)

    def sampler(self, node: Any, members: int) -> Sampler:
        """Return a new sampler of the config's ``node`` for ``members`` members."""
        sampler = make({"sampler": node}, "sampler", Sampler)
        sampler.bind(Noise(1, self.layout.size, self.device, self.threads), members, self.layout)
        return sampler

    def candidate(self) -> Candidate:
        """Return a new module of the measured layer with weights of its own."""
        return Candidate(self.case.module, self.layout, self.precision, self.device)

    def copy(self) -> nn.Module:
        """Return a new module of the measured layer with the centre's weights."""
        candidate = self.candidate()
        candidate.flat.copy_(self.centre)
        return candidate.ready()

    def map(self, function: Callable[[Any], None], items: Iterable[Any]) -> None:
        """Call ``function`` on all items on all threads, without gradients, and wait for the device."""

        def quiet(item: Any) -> None:
            with torch.no_grad():  # holds for this thread alone
                function(item)

        self.threads.map(quiet, items)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    @cached_property
    def unperturbed(self) -> Callable[[int], None]:
        """Return the faster of two unperturbed passes: in chunks on threads, or in one call with all threads in its operators."""
        chunks = [self.x[low : low + self.rows] for low in range(0, self.case.examples, self.rows)]

        def in_chunks(number: int) -> None:
            self.map(self.module, chunks)

        def in_one_call(number: int) -> None:
            torch.set_num_threads(self.threads.count)
            with torch.no_grad():
                self.module(self.x)
            self.map(self.module, ())
            torch.set_num_threads(1)

        both = {"chunks": in_chunks, "call": in_one_call}
        seconds = in_turn(both, TRIALS)
        return both[min(both, key=lambda name: statistics.median(seconds[name]))]
