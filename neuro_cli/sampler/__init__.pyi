"""Public names of neuro_cli.sampler and the modules they come from: read by type checkers, and by ``__init__.py``."""

from .activation import Activation as Activation
from .base import Estimator as Estimator
from .base import Sampler as Sampler
from .iid import Iid as Iid
from .low_rank import LowRank as LowRank
from .noise_table import NoiseTable as NoiseTable
from .permutation import Permutation as Permutation
from .sign_flip import SignFlip as SignFlip
