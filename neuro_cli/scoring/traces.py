"""Traces that passes of a module leave: state, writes to their input, draws from random generators."""

from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from neuro_cli.core.seeds import GENERATORS, Generators
from neuro_cli.scoring.base import PassSettings
from neuro_cli.scoring.isolation import difference, drawing
from neuro_cli.scoring.passes.dense import Unwritten, is_large
from neuro_cli.scoring.passes.example_marks import tensors
from neuro_cli.scoring.tolerance import SCALE
from neuro_cli.task.base import Batch

EXAMPLES = 4
OTHER = 1.5  # times the centre: another member, whose cache of weights is another one


class Traces(NamedTuple):
    """``draws``: names of random generators; ``state``: name of what moved, unless it is the same for all members."""

    draws: list[str]
    writes: bool
    state: str | None

    @property
    def reason(self) -> str | None:
        """The first trace in words, None where there is none."""
        if self.draws:
            return f"draws random numbers ({', '.join(self.draws)})"
        return "changes its input in place" if self.writes else self.state and f"changes {self.state}"


def with_noise(batch: Batch) -> Batch:
    """Return the examples with noise on inputs that are no integers."""
    generator = torch.Generator().manual_seed(2)

    def moved(rows: Tensor) -> Tensor:
        if not rows.is_floating_point():
            return rows
        return rows + SCALE * torch.randn(rows.shape, generator=generator).to(rows)

    return replace(batch, inputs=tree_map_only(Tensor, moved, batch.inputs))


def _telling(settings: PassSettings, centre: Tensor) -> Batch:
    """Return a few examples, with noise if all are equal: zeros may not move a state that later batches move."""
    batch = settings.few(EXAMPLES)
    inputs = [rows for rows in tensors([batch.inputs]) if rows.is_floating_point()]
    if is_large(settings.module, centre) or not inputs or any(bool((rows != rows[:1]).any()) for rows in inputs):
        return batch
    noisy = with_noise(batch)
    try:
        with GENERATORS, torch.no_grad():
            settings.task.score(settings.module_at(centre), noisy.clone())
    except Exception:  # any kind: the module's own, which may refuse such numbers
        return batch
    return noisy


def is_forgotten(settings: PassSettings, centre: Tensor) -> bool:
    """Return whether passes of the ``centre`` (M,) give the same scores and leave the same state, whatever state they begin in.

    Spiking networks set their potentials back at the start of each pass; a count of passes or a memory of examples stays.
    """
    batch, left = _telling(settings, centre), list[tuple[nn.Module, np.ndarray]]()
    backwards = Batch(*(rows.flip(0) for rows in batch))
    for earlier in ((), (backwards, batch)):
        candidate = settings.candidate()
        with torch.no_grad():
            for examples in earlier:
                candidate.flat.copy_(centre * OTHER)
                settings.task.score(candidate.ready(), examples.clone())
            candidate.flat.copy_(centre)
            left.append((candidate.ready(), settings.task.score(candidate.module, batch.clone())))
    (fresh, scores), (used, again) = left
    return np.array_equal(scores, again) and difference(fresh, used) is None


def traces(settings: PassSettings, centre: Tensor) -> Traces:
    """Find the traces of a few forward passes of two members."""
    batch, fresh, writes = _telling(settings, centre), settings.candidate().module, False
    large, used = is_large(settings.module, centre), list[nn.Module]()
    with drawing(0):  # a pass that seeds the generators itself leaves them as its last call did
        before = Generators()
        for factor, passes in ((1.0, 1), (OTHER, 2)):
            if large and used and difference(fresh, used[0]) is None:  # another member would be a copy, for nothing
                used.append(used[0])
                break
            alias = large and not used
            module = settings.candidate(flat=centre).ready() if alias else settings.module_at(centre * factor)
            used.append(module)
            for _ in range(passes):
                given = batch.clone()
                with torch.no_grad(), Unwritten(centre) if alias else nullcontext():
                    settings.task.score(module, given)
                writes |= any(tensor._version for tensor in given)
        draws = before.moved()
    moved = difference(fresh, used[0]) is not None
    return Traces(draws, writes, difference(*used) if moved else None)
