"""``neuro scale``: weak and strong scaling of distribution methods over networks, measured on this machine and projected beyond.

DarwiNN (Malik, Petrica, Kapre, Blott, GECCO '20 Companion), section 5 and Figure 2.
"""

from pathlib import Path
from typing import Any

from neuro_cli.bench.table import wide_console
from neuro_cli.core.errors import UserError, only_warned
from neuro_cli.runner.options import Options
from neuro_cli.scaling.plan import study_of
from neuro_cli.scaling.results import STRONG, WEAK, rows_of
from neuro_cli.scaling.table import show
from neuro_cli.scaling.worlds import measure


def scale(config: dict[str, Any], run: Path) -> None:
    """Measure, project, write scaling.csv, scaling.md and the plots into ``run``. Raises UserError."""
    options = Options(config)
    study = study_of(options)
    missing = [name for name, network in study.networks.items() if network.cost is None]
    if study.project and missing:
        raise UserError(f"project=True: fabric {missing[0]} has no cost model to project with; give others in fabrics")
    measurements = measure(study, run / "worlds")
    rows = rows_of(study, measurements)
    show(study, measurements, rows, run)
    with only_warned("plots"):
        from neuro_cli.scaling.plot import plot_scaling  # here: a matplotlib that cannot be loaded costs its plots alone

        for scaling in (WEAK, STRONG):
            plot_scaling(rows, scaling, run / scaling)
    wide_console().print(f"neuro: results in {run}")
