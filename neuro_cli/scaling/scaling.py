"""``neuro scale``: weak and strong scaling of distribution methods over networks, measured on this machine and projected beyond.

DarwiNN (Malik, Petrica, Kapre, Blott, GECCO '20 Companion), section 5 and Figure 2.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import UserError, only_warned
from neuro_cli.core.messages.tables import wide_console
from neuro_cli.logger.base import Logger, Row
from neuro_cli.logger.several import without_csv
from neuro_cli.runner.options import Options
from neuro_cli.scaling.plan import study_of
from neuro_cli.scaling.results import MEASURED, STRONG, WEAK, ScalingRow, rows_of
from neuro_cli.scaling.table import show
from neuro_cli.scaling.worlds import measure


def scale(config: dict[str, Any], run: Path) -> None:
    """Measure, project, write scaling.csv, scaling.md and the plots into ``run``, and log the study. Raises UserError."""
    options = Options(config)
    study, logger = study_of(options), options.logger
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
    log_study(logger, run, config, rows)
    wide_console().print(f"neuro: results in {run}")


def log_study(logger: Logger, run: Path, config: dict[str, Any], rows: Sequence[ScalingRow]) -> None:
    """Log ``rows`` to loggers that have not started, except that of CSV files. A step is a number of ranks.

    The failure of a logger is a warning: the table is on file. Names of projected rows end with ``/projected``.
    """
    steps: defaultdict[int, Row] = defaultdict(dict)
    for row in rows:
        where = f"{row.model}/{row.fabric}/{row.method}/{row.scale}{'' if row.source == MEASURED else '/projected'}"
        efficiency = None if row.efficiency is None else row.efficiency.middle
        values = {"efficiency": efficiency, "seconds": row.seconds.middle, "bytes_sent": row.bytes.get("bytes_sent")}
        steps[row.ranks] |= {f"{row.scaling}_{what}/{where}": value for what, value in values.items() if value is not None}
    for each in without_csv(logger):
        with only_warned(f"figures for {type(each.logger).__name__}"):
            each.start(run, config, None)
            for step in sorted(steps):
                each.log({"generation": step, **steps[step]})
            each.finish({})
