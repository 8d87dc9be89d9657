"""neuro: distributed neuroevolution, as a library and a runner."""

from typing import TYPE_CHECKING

from neuro_cli.core.lazy import lazily
from neuro_cli.core.machine.mkl import ask_for_same_bits
from neuro_cli.core.version import __version__

if TYPE_CHECKING:
    from neuro_cli import algo as algo
    from neuro_cli import distribution as distribution
    from neuro_cli import sampler as sampler
    from neuro_cli import task as task
    from neuro_cli.broker.task import BaseTask as BaseTask
    from neuro_cli.cli.library import evaluate as evaluate
    from neuro_cli.cli.library import resume as resume
    from neuro_cli.cli.library import train as train
    from neuro_cli.core.errors import CandidateError as CandidateError
    from neuro_cli.core.errors import ConfigError as ConfigError
    from neuro_cli.core.errors import UserError as UserError
    from neuro_cli.library.evolution import Evolution as Evolution
    from neuro_cli.library.perturbed_layers import perturbed as perturbed
    from neuro_cli.library.result import Result as Result
    from neuro_cli.pool.client import BrokerClient as BrokerClient
    from neuro_cli.pool.client import TaskResult as TaskResult
    from neuro_cli.runner.load import load as load

_HOMES = {
    "algo": "",
    "distribution": "",
    "sampler": "",
    "task": "",
    "BaseTask": "broker.task",
    "BrokerClient": "pool.client",
    "CandidateError": "core.errors",
    "ConfigError": "core.errors",
    "UserError": "core.errors",
    "Evolution": "library.evolution",
    "Result": "library.result",
    "TaskResult": "pool.client",
    "evaluate": "cli.library",
    "load": "runner.load",
    "perturbed": "library.perturbed_layers",
    "resume": "cli.library",
    "train": "cli.library",
}
__all__ = ["__version__", *_HOMES]
ask_for_same_bits()
__getattr__ = lazily(__name__, _HOMES)
