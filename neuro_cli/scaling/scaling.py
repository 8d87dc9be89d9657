"""``neuro scale``: weak and strong scaling of distribution methods over networks, measured on this machine and projected beyond.

DarwiNN (Malik, Petrica, Kapre, Blott, GECCO '20 Companion), section 5 and Figure 2.
"""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neuro_cli.bench.table import machine, markdown, print_table, write
from neuro_cli.core.errors import UserError, only_warned
from neuro_cli.core.messages.tables import wide_console
from neuro_cli.logger.base import Logger, Row
from neuro_cli.logger.several import without_csv
from neuro_cli.runner.options import Options
from neuro_cli.scaling.plan import Study, study_of
from neuro_cli.scaling.results import EXTRAPOLATED, MEASURED, STRONG, WEAK, ScalingRow, Spread, projections, rows_of
from neuro_cli.scaling.worlds import Measurements, measure

COLUMNS = (
    "scaling", "fabric", "method", "members", "ranks", "s / generation", "efficiency", "payload", "interface", "projected s",
)  # fmt: skip


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


def measured_table(rows: Sequence[ScalingRow]) -> tuple[list[str], list[list[str]]]:
    """Return the columns and cells of the measured rows; the first column is the model where there are several."""
    several = _several(rows)
    cells = [[*[row.model][:several], *_cells(row)] for row in rows if row.source == MEASURED]
    return [*["model"][:several], *COLUMNS], cells


def _several(rows: Sequence[ScalingRow]) -> bool:
    return len({row.model for row in rows}) > 1


def _cells(row: ScalingRow) -> list[str]:
    efficiency = "" if row.efficiency is None else _shown(row.efficiency, row.ranks > 1)
    if row.crowded:
        efficiency = f"{efficiency} more ranks than cores".strip()
    projected = "" if row.error is None else f"{row.projected:.4f} ({row.error:+.0%})"
    sent, crossed = (_amount(row.bytes.get(key)) for key in ("bytes_sent", "interface_sent"))
    return [*_names(row), str(row.ranks), _shown(row.seconds), efficiency, sent, crossed, projected]


def _names(row: ScalingRow) -> list[str]:
    fabric = f"{row.fabric}{' emulated' if row.emulated and row.source == MEASURED else ''}"
    return [row.scaling, fabric, row.method, f"{row.scale} {'per rank' if row.scaling == 'weak' else 'in all'}"]


def _shown(spread: Spread, full: bool = True) -> str:
    return f"{spread.middle:.3f}" + (f" ({spread.least:.3f} to {spread.most:.3f})" if full else "")


def _amount(count: float | None) -> str:
    if count is None:
        return ""
    return f"{count / 1e6:.2f} MB" if count >= 1e5 else f"{count / 1e3:.2f} kB"


def projected_table(rows: Sequence[ScalingRow]) -> tuple[list[str], list[list[str]]]:
    """Return the projected efficiencies, one column per number of ranks; ``~`` marks values extrapolated from smaller worlds."""
    several = _several(rows)
    projected = [row for row in rows if row.source != MEASURED and row.efficiency is not None]
    ranks = sorted({row.ranks for row in projected})
    lines: dict[tuple[str, ...], dict[int, str]] = {}
    for row in projected:
        assert row.efficiency is not None
        mark = "~" if row.source == EXTRAPOLATED else ""
        lines.setdefault((*[row.model][:several], *_names(row)), {})[row.ranks] = f"{mark}{row.efficiency.middle:.3f}"
    cells = [[*names, *(line.get(n, "") for n in ranks)] for names, line in lines.items()]
    return [*["model"][:several], "projected", "fabric", "method", "members", *(f"N = {n}" for n in ranks)], cells


def error_line(rows: Sequence[ScalingRow]) -> str:
    """Return the line with the projection's errors, without points that shared cores; empty without such points."""
    errors = [abs(row.error) for row in rows if row.error is not None and not row.crowded]
    if not errors:
        return ""
    middle, most = statistics.median(errors), max(errors)
    return f"projection against {len(errors)} measured points: median error {middle:.1%}, largest {most:.1%}"


def cost_lines(study: Study, measurements: Measurements) -> list[str]:
    """Return lines with the cost model of every network, and its origin."""
    lines = []
    for name, projection in projections(study, measurements).items():
        origin = "given in its config" if study.networks[name].cost is not None else "fitted to the collectives measured here"
        costs = ", ".join(
            f"{kind} {cost.latency * 1e6:.1f} us a message, {cost.bandwidth / 1e6:.0f} MB/s"
            for kind, cost in (("all-gather", projection.cost.all_gather), ("all-reduce", projection.cost.all_reduce))
        )
        lines.append(f"cost model of {name} ({origin}): {costs}")
    return lines


def collective_lines(study: Study, measurements: Measurements) -> list[str]:
    """Return lines with the collectives, measured and by the cost model."""
    lines = []
    for name, projection in projections(study, measurements).items():
        for call, ranks, seconds in measurements.collectives[name]:
            modelled = projection.cost.seconds(call, ranks)
            lines.append(
                f"{name}, {ranks} ranks, {call[0]} of {call[1]} bytes: {seconds * 1e3:.3f} ms, model {modelled * 1e3:.3f} ms"
            )
    return lines


def show(study: Study, measurements: Measurements, rows: Sequence[ScalingRow], run: Path) -> None:
    """Print the tables and write scaling.csv and scaling.md into ``run``."""
    write(run / "scaling.csv", [row.fields() for row in rows], study.threads)
    text: list[str] = []
    titles = (
        "Measured: weak efficiency t1 / tN, strong t1 / (N tN); medians (least to most)",
        "Projected efficiencies (~: the work of a rank is extrapolated from smaller worlds)",
    )
    for title, (columns, cells) in zip(titles, (measured_table(rows), projected_table(rows)), strict=True):
        if cells:
            print_table(title, columns, cells)
            text += [f"{title}.", "", markdown(columns, cells), ""]
    libraries = [f"ranks of {name}: {library}" for name, library in measurements.libraries.items()]
    notes = [*cost_lines(study, measurements), error_line(rows), machine(study.threads), *libraries]
    for note in filter(None, notes):
        wide_console().print(note, highlight=False)
    text += [f"- {note}" for note in (*filter(None, notes), *collective_lines(study, measurements))]
    (run / "scaling.md").write_text("\n".join(text) + "\n")
