"""Algorithms turn fitnesses into the next centre."""

from typing import TYPE_CHECKING

from neuro_cli.core.lazy import lazily

if TYPE_CHECKING:
    from neuro_cli.algo.ars import ARS as ARS
    from neuro_cli.algo.base import PopulationAlgorithm as PopulationAlgorithm
    from neuro_cli.algo.clipup import ClipUp as ClipUp
    from neuro_cli.algo.cr_fm_nes import CRFMNES as CRFMNES
    from neuro_cli.algo.genetic import Genetic as Genetic
    from neuro_cli.algo.openai_es import OpenAIES as OpenAIES
    from neuro_cli.algo.pgpe import PGPE as PGPE
    from neuro_cli.algo.sep_cma_es import SepCMAES as SepCMAES
    from neuro_cli.algo.snes import SNES as SNES
    from neuro_cli.algo.xnes import XNES as XNES

_HOMES = {
    "ARS": "ars",
    "PopulationAlgorithm": "base",
    "ClipUp": "clipup",
    "CRFMNES": "cr_fm_nes",
    "Genetic": "genetic",
    "OpenAIES": "openai_es",
    "PGPE": "pgpe",
    "SepCMAES": "sep_cma_es",
    "SNES": "snes",
    "XNES": "xnes",
}
__all__ = list(_HOMES)
__getattr__ = lazily(__name__, _HOMES)
