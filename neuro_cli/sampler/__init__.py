"""Samplers draw the noise that makes a member of the centre."""

from typing import TYPE_CHECKING

from neuro_cli.core.lazy import lazily

if TYPE_CHECKING:
    from neuro_cli.sampler.activation import Activation as Activation
    from neuro_cli.sampler.base import Estimator as Estimator
    from neuro_cli.sampler.base import Sampler as Sampler
    from neuro_cli.sampler.iid import Iid as Iid
    from neuro_cli.sampler.low_rank import LowRank as LowRank
    from neuro_cli.sampler.noise_table import NoiseTable as NoiseTable
    from neuro_cli.sampler.permutation import Permutation as Permutation
    from neuro_cli.sampler.sign_flip import SignFlip as SignFlip

_HOMES = {
    "Activation": "activation",
    "Estimator": "base",
    "Sampler": "base",
    "Iid": "iid",
    "LowRank": "low_rank",
    "NoiseTable": "noise_table",
    "Permutation": "permutation",
    "SignFlip": "sign_flip",
}
__all__ = list(_HOMES)
__getattr__ = lazily(__name__, _HOMES)
