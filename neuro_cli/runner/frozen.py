"""Frozen parameters, stored once on a machine: copies of the module and ranks share their pages."""

import logging
import os

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.core.machine.memory import give_back_memory
from neuro_cli.core.machine.pages import Pages, Part, end, parts_of
from neuro_cli.core.module.copies import in_pages
from neuro_cli.fabric.base import World

log = logging.getLogger(__name__)

LEAST = 2**20  # bytes of frozen parameters from which on they are shared


def share_frozen(module: nn.Module, world: World, twin: nn.Module | None = None) -> None:
    """Move the frozen parameters of ``module`` into pages that its copies, and the ranks of this machine, share.

    ``twin``: the module that it copies, which uses these pages too. On a CPU. The first rank of a machine writes the
    numbers. Every rank calls this. If ranks cannot open each other's pages, or the system has none, a line says so, and each
    rank or copy has its own.
    """
    chosen = frozen(module)
    if end(parts_of(list(chosen.values()))) < LEAST:
        return
    tensors = [parameter.detach() for parameter in chosen.values()]
    pages = _opened(tensors, world) if world.local_size > 1 and not world.emulated else None
    try:
        pages = pages or Pages.of(tensors)
    except OSError as error:
        log.info("frozen parameters: a copy for each thread, since %s", error)
        return
    in_pages(list(chosen.values()), pages)
    if twin is not None:
        others = dict(twin.named_parameters())
        for name, view in zip(chosen, pages.views(), strict=True):
            others[name].data = view
    del tensors
    give_back_memory()


def frozen(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return the frozen parameters that pages can hold, by name."""
    if any(isinstance(part, torch.jit.ScriptModule) for part in module.modules()):
        return {}  # each look makes a script module's parameters
    return {
        name: parameter
        for name, parameter in module.named_parameters()
        if not parameter.requires_grad
        and type(parameter) is nn.Parameter
        and parameter.device.type == "cpu"
        and parameter.layout == torch.strided
        and parameter.is_contiguous()
        and not parameter.is_inference()
        and not vars(parameter)
    }


def _opened(tensors: list[Tensor], world: World) -> Pages | None:
    """Return the pages of this machine's first rank; None, on all of its ranks, where one of them cannot open these."""
    parts, pages, reason = parts_of(tensors), None, ""
    try:
        pages = Pages.of(tensors) if world.local_rank == 0 else None
    except OSError as error:
        reason = str(error)
    own = np.array([os.getpid(), -1 if pages is None else pages.file, end(parts)], np.int64)
    table = world.all_gather_on_node(own, [3] * world.local_size).reshape(-1, 3)
    if world.local_rank:
        try:
            pages = _of_other(parts, table[0])
        except OSError as error:
            reason = str(error)
    served = world.all_gather_on_node(np.array([pages is not None], np.uint8), [1] * world.local_size)
    if served.all():
        return pages
    log.info(
        "frozen parameters: a copy for each rank of this machine, since one cannot open another's: %s", reason or "it failed"
    )
    return None


def _of_other(parts: list[Part], first: np.ndarray) -> Pages:
    """Open the pages of the process in ``first``: its number, its descriptor, and their bytes. Raises OSError."""
    process, file, size = map(int, first)
    if file < 0 or size != end(parts):
        raise OSError("the first rank of this machine has other frozen parameters, or no pages")
    return Pages(parts, os.open(f"/proc/{process}/fd/{file}", os.O_RDONLY | os.O_CLOEXEC))
