"""Public names of neuro_cli.distribution and the modules they come from: read by type checkers, and by ``__init__.py``."""

from .auto import Auto as Auto
from .base import Distribution as Distribution
from .chromosome_updates import ChromosomeUpdates as ChromosomeUpdates
from .data_parallel import DataParallel as DataParallel
from .local import Local as Local
from .replicated import Replicated as Replicated
from .semi_updates import SemiUpdates as SemiUpdates
