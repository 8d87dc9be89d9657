"""State of the process that a run changes, restored for the script or notebook that called it."""

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from neuro_cli.factory.own_code import import_path_put_back
from neuro_cli.run_folder import log as run_log
from neuro_cli.runner import stop_signals

_LOG = logging.getLogger("neuro_cli")


@contextmanager
def process_put_back() -> Iterator[None]:
    """Restore what a run changes of its process: torch's threads, the log, the import path, signals that were heard."""
    threads = torch.get_num_threads()
    log = list(_LOG.handlers), _LOG.level, _LOG.propagate
    _LOG.handlers = []  # a run would close the handlers that it finds
    stop_signals.forget()
    try:
        with import_path_put_back():
            yield
    finally:
        run_log.leave()
        for handler in list(_LOG.handlers):
            _LOG.removeHandler(handler)
            handler.close()
        _LOG.handlers, _LOG.propagate = log[0], log[2]
        _LOG.setLevel(log[1])
        torch.set_num_threads(threads)


def pass_on_signals(run: Path) -> None:
    """Raise the signals that stopped the run in the folder ``run`` again, for the script, now that the checkpoint is written."""
    heard = stop_signals.heard()
    stop_signals.forget()
    for name in heard:
        if name == "SIGINT":
            raise KeyboardInterrupt(f"stopped with a checkpoint; neuro_cli.resume({str(run)!r}) continues")
        signal.raise_signal(signal.Signals[name])
