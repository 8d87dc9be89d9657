"""Memory of one perturbation for each example: by formula, and measured.

The paper's formula, in numbers, for a layer of M weights on n examples: n M of IID, half of it of antithetic pairs; with noise
reuse M and, for each example, a sign or an index for every output, every input, or both.
"""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from neuro_cli.core.machine.memory import give_back_memory
from neuro_cli.core.rows import short_order
from neuro_cli.sampler.base import Sampler
from neuro_cli.sampler.block_sums import BlockSums
from neuro_cli.sampler.blocks import Block
from neuro_cli.sampler.low_rank import LowRank
from neuro_cli.sampler.noise_table import NoiseTable
from neuro_cli.sampler.permutation import Permutation
from neuro_cli.sampler.sign_flip import SignFlip

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
FLOAT = 4  # bytes of a drawn number


def noise_numbers(sampler: Sampler, drawn_bytes: int = FLOAT) -> tuple[int, int]:
    """Return how many numbers the noise of all directions has by the paper's formula, and how many bytes this library keeps.

    Without copies in another precision. Signs are single bits here, in words of 32; indices have two bytes, on a GPU and where
    those do not suffice four; permuted noise is drawn for all weights of a layer, and the share in use is a copy.
    ``drawn_bytes``: of a direction's own normal number, which a GPU rounds to the precision of the pass while it draws.
    """
    if isinstance(sampler, NoiseTable):
        return sampler.size, FLOAT * sampler.size
    if not isinstance(sampler, BlockSums):
        numbers = sampler.directions * sampler.layout.size
        return numbers, drawn_bytes * numbers
    of_all = sum(_shared(sampler, block) for block in sampler.blocks.values())
    of_each = [_of_direction(sampler, block, drawn_bytes) for block in sampler.blocks.values()]
    numbers = of_all + sampler.directions * sum(each[0] for each in of_each)
    drawn = sampler.layout.size if isinstance(sampler, Permutation) else 0
    return numbers, FLOAT * (of_all + drawn) + sampler.directions * sum(each[1] for each in of_each)


def _shared(sampler: BlockSums, block: Block) -> int:
    """Return the numbers of a block that all directions share."""
    if isinstance(sampler, LowRank):
        return 0
    if isinstance(sampler, Permutation):
        rows, inner, _ = sampler.shape(block)
        return rows * inner * block.spatial
    return block.rows * block.width


def _of_direction(sampler: BlockSums, block: Block, drawn_bytes: int) -> tuple[int, int]:
    """Return the numbers of a block that each direction has to itself, and their bytes."""
    if isinstance(sampler, SignFlip):
        outputs, inputs = sampler.flips(block)
        return outputs * block.rows + inputs * block.inner, FLOAT * sampler.factor_columns(block)
    if isinstance(sampler, Permutation):
        plan, device = sampler.plan(block), sampler.noise.device
        rows = (plan.groups or plan.all_groups) * plan.outputs or plan.groups
        channels = plan.groups * block.inner  # a group's index is stored as that of each of its channels
        # an index of four bytes encodes both where channels have groups and places in them
        short = short_order(plan.all_groups if plan.groups else block.rows, device) and not (plan.groups and plan.outputs)
        of_row = 2 if short else FLOAT
        of_input = 2 if short_order(block.inner, device) else FLOAT
        return rows + plan.inputs, of_row * rows + of_input * plan.inputs + FLOAT * channels
    columns = sampler.factor_columns(block)
    return columns, drawn_bytes * columns


def peak_bytes(work: Callable[[], Any], device: torch.device) -> int | None:
    """Return the peak memory (bytes) of this process during ``work`` above that before; None where the system does not report it.

    On a GPU those of torch's allocator, on a CPU the resident memory, in which all libraries' allocations count.
    """
    if device.type == "cuda":
        gc.collect()  # an earlier method may have left circles of references
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device)) - before
    give_back_memory()
    try:
        RESET.write_text("5")  # resets the peak to the resident memory of now (proc(5))
        before = _resident()["VmRSS"]
        work()
        return _resident()["VmHWM"] - before
    except (OSError, KeyError):
        return None


def _resident() -> dict[str, int]:
    """Return the entries of the process's status that are memory, in bytes."""
    lines = (line.split(":", 1) for line in STATUS.read_text().splitlines())
    return {name: 1024 * int(value.split()[0]) for name, value in lines if value.strip().endswith("kB")}
