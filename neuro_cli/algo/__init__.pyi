"""Public names of neuro_cli.algo and the modules they come from: read by type checkers, and by ``__init__.py``."""

from .ars import ARS as ARS
from .base import PopulationAlgorithm as PopulationAlgorithm
from .clipup import ClipUp as ClipUp
from .cma_es import CMAES as CMAES
from .cr_fm_nes import CRFMNES as CRFMNES
from .genetic import Genetic as Genetic
from .openai_es import OpenAIES as OpenAIES
from .pgpe import PGPE as PGPE
from .random_vote import RandomVote as RandomVote
from .sep_cma_es import SepCMAES as SepCMAES
from .snes import SNES as SNES
from .xnes import XNES as XNES
