"""Public names of neuro_cli and the modules they come from: read by type checkers, and by ``__init__.py``."""

from . import algo as algo
from . import distribution as distribution
from . import sampler as sampler
from . import task as task
from .broker.task import BaseTask as BaseTask
from .cli.python_calls import evaluate as evaluate
from .cli.python_calls import resume as resume
from .cli.python_calls import train as train
from .core.errors import CandidateError as CandidateError
from .core.errors import ConfigError as ConfigError
from .core.errors import UserError as UserError
from .core.version import __version__ as __version__
from .library.ask_tell import AskTell as AskTell
from .library.bounds import Bounds as Bounds
from .library.evolution import Evolution as Evolution
from .library.forward_gradient import ForwardGradient as ForwardGradient
from .library.perturbed_layers import perturbed as perturbed
from .library.result import Result as Result
from .library.run_seeds import run_seeds as run_seeds
from .library.stopping import Stopping as Stopping
from .pool.client import BrokerClient as BrokerClient
from .pool.client import TaskResult as TaskResult
from .runner.load import load as load
