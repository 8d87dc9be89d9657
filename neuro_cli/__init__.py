"""neuro: distributed neuroevolution, as a library and a runner."""

from typing import TYPE_CHECKING

from neuro_cli.core.lazy import lazily

if TYPE_CHECKING:
    from neuro_cli import algo as algo
    from neuro_cli import distribution as distribution
    from neuro_cli import sampler as sampler
    from neuro_cli.core.errors import CandidateError as CandidateError
    from neuro_cli.core.errors import ConfigError as ConfigError
    from neuro_cli.core.errors import UserError as UserError
    from neuro_cli.library.evolution import Evolution as Evolution
    from neuro_cli.library.perturbed_layers import perturbed as perturbed
    from neuro_cli.runner.load import load as load

__version__ = "0.1.0"
_HOMES = {
    "algo": "",
    "distribution": "",
    "sampler": "",
    "CandidateError": "core.errors",
    "ConfigError": "core.errors",
    "UserError": "core.errors",
    "Evolution": "library.evolution",
    "load": "runner.load",
    "perturbed": "library.perturbed_layers",
}
__all__ = ["__version__", *_HOMES]
__getattr__ = lazily(__name__, _HOMES)
