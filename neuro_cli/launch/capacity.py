"""Checks that this machine has cores and memory for the ranks that a command asks for."""

import logging

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.machine.cores import usable_cores
from neuro_cli.core.machine.memory import free_memory
from neuro_cli.runner.build import form_of
from neuro_cli.runner.options import Options

log = logging.getLogger(__name__)

RANK_BYTES = 350e6  # bytes of Python, torch, numba and MPI, without a model
MANY = 4  # ranks per core above which a warning is logged


def check_room(ranks: int, options: Options) -> None:
    """Warn of too many ranks for the machine's capacity of cores. Raises ConfigError where memory cannot hold them."""
    cores = usable_cores()
    own, once = _model_bytes(options)
    each, free = RANK_BYTES + own, free_memory()
    if free is not None and ranks * each + once > free:
        most = max(1, int((free - once) / each))
        shared = f" and {once / 1e6:.0f} MB for all" if once >= 1e6 else ""
        needs = f"they need about {(ranks * each + once) / 1e9:.1f} GB, {each / 1e6:.0f} MB each{shared}"
        raise ConfigError("ranks", ranks, f"{needs}, and {free / 1e9:.1f} GB are free here: at most {most}")
    if ranks > MANY * cores:
        log.warning("ranks=%d on %d cores: ranks take turns and wait for each other", ranks, cores)


def _model_bytes(options: Options) -> tuple[float, float]:
    """Return the bytes of a rank's centre, its momentum, and one candidate per thread; and of frozen numbers, which ranks share.

    Ranks of an ensemble have members only.
    """
    if options.is_ensemble:
        return 0.0, 0.0
    trained = frozen = 0
    for parameter in form_of(options.plain).parameters():
        if parameter.requires_grad:
            trained += parameter.numel()
        else:
            frozen += parameter.numel() * parameter.element_size()
    return 4.0 * trained * (2 + (options.config.threads or 1)), float(frozen)
