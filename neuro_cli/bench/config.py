"""Root keys of ``conf/bench.yaml``; each kind of benchmark declares the keys of its section, which the comments there explain."""

from dataclasses import dataclass
from typing import Any

from neuro_cli.runner.config import RunConfig, Section, bounded, key, section


@dataclass(frozen=True, kw_only=True)
class BenchConfig(RunConfig):
    """Config of a benchmark: the root keys of a training run, the rounds and the samplers."""

    precision: str = key()  # neuro bench layer measures half precision too, which no training has
    repeats: int = key(bounded(1))
    samplers: dict[str, Any] = key()

    def own(self, kind: type[Section], name: str) -> Section:
        """Return the section ``name`` with the keys of ``kind``. Raises UserError."""
        return section(kind, self.plain.get(name), f"{name}.")
