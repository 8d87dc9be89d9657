"""Distribution methods: which rank scores which members, and what ranks send each other."""

from typing import TYPE_CHECKING

from neuro_cli.core.lazy import lazily

if TYPE_CHECKING:
    from neuro_cli.distribution.auto import Auto as Auto
    from neuro_cli.distribution.base import Distribution as Distribution
    from neuro_cli.distribution.chromosome_updates import ChromosomeUpdates as ChromosomeUpdates
    from neuro_cli.distribution.data_parallel import DataParallel as DataParallel
    from neuro_cli.distribution.local import Local as Local
    from neuro_cli.distribution.replicated import Replicated as Replicated
    from neuro_cli.distribution.semi_updates import SemiUpdates as SemiUpdates

_HOMES = {
    "Auto": "auto",
    "Distribution": "base",
    "ChromosomeUpdates": "chromosome_updates",
    "DataParallel": "data_parallel",
    "Local": "local",
    "Replicated": "replicated",
    "SemiUpdates": "semi_updates",
}
__all__ = list(_HOMES)
__getattr__ = lazily(__name__, _HOMES)
