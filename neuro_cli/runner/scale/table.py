"""What a scaling study shows: a table on the terminal, the same as Markdown, and the projection's errors."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from neuro_cli.runner.bench_table import machine, wide_console, write
from neuro_cli.runner.scale.plan import Study
from neuro_cli.runner.scale.results import MEASURED, Row, projections
from neuro_cli.runner.scale.worlds import Measurements

COLUMNS = (
    "scaling", "fabric", "method", "members", "ranks", "s / generation", "efficiency", "payload MB", "interface MB", "source",
)  # fmt: skip


def cells(row: Row) -> list[str]:
    per = "a rank" if row.scaling == "weak" else "in all"
    efficiency = "more ranks than cores" if row.crowded else "-"
    if row.efficiency is not None:
        efficiency = f"{row.efficiency:.3f}"
        if row.source == MEASURED and row.ranks > 1:
            efficiency += f" ({row.efficiency_least:.3f} to {row.efficiency_most:.3f})"
        if row.crowded:
            efficiency += ", more ranks than cores"
    seconds = f"{row.seconds:.4f}" + (f" ({row.seconds_least:.4f} to {row.seconds_most:.4f})" if row.source == MEASURED else "")
    source = row.source if row.error is None else f"{row.source}; projected {row.seconds_projected:.4f} ({row.error:+.0%})"
    fabric = f"{row.fabric}{' emulated' if row.emulated else ''}"
    return [
        row.scaling, fabric, row.method, f"{row.scale} {per}", str(row.ranks), seconds, efficiency,
        _megabytes(row.bytes_sent), _megabytes(row.interface_sent), source,
    ]  # fmt: skip


def _megabytes(count: float | None) -> str:
    return "" if count is None else f"{count / 1e6:.3f}"


def error_line(rows: Sequence[Row]) -> str:
    """How far the projection was from what was measured, ranks that shared cores left out; empty without such points."""
    errors = [abs(row.error) for row in rows if row.error is not None and not row.crowded]
    if not errors:
        return ""
    return f"projection against {len(errors)} measured points: median error {statistics.median(errors):.1%}, largest {max(errors):.1%}"


def cost_lines(study: Study, found: Measurements) -> list[str]:
    """The cost model of every network, and whose it is."""
    lines = []
    for name, projection in projections(study, found).items():
        origin = "given in its config" if study.networks[name].cost is not None else "fitted to the collectives measured here"
        costs = ", ".join(
            f"{kind} {cost.latency * 1e6:.1f} us a message, {cost.bandwidth / 1e6:.0f} MB/s"
            for kind, cost in (("all-gather", projection.cost.all_gather), ("all-reduce", projection.cost.all_reduce))
        )
        lines.append(f"cost model of {name} ({origin}): {costs}")
    return lines


def collective_lines(study: Study, found: Measurements) -> list[str]:
    """Collectives as measured beside what the cost model says of them."""
    lines = []
    for name, projection in projections(study, found).items():
        for call, ranks, seconds in found.collectives[name]:
            said = projection.cost.seconds(call, ranks)
            lines.append(
                f"{name}, {ranks} ranks, {call[0]} of {call[1]} bytes: {seconds * 1e3:.3f} ms, model {said * 1e3:.3f} ms"
            )
    return lines


def show(study: Study, found: Measurements, rows: Sequence[Row], run: Path) -> None:
    """Print the table and write scaling.csv and scaling.md into ``run``."""
    write(run / "scaling.csv", [row.fields() for row in rows], study.threads)
    table = Table(*COLUMNS, title="Weak (t1 / tN) and strong (t1 / (N tN)) scaling; medians (least to most)")
    for row in rows:
        table.add_row(*cells(row))
    console = wide_console()
    console.print(table)
    notes = [*cost_lines(study, found), error_line(rows), machine(study.threads), f"MPI: {found.library}"]
    for note in filter(None, notes):
        console.print(note, highlight=False)
    markdown = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    markdown += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    markdown += ["", *(f"- {note}" for note in (*filter(None, notes), *collective_lines(study, found)))]
    (run / "scaling.md").write_text("\n".join(markdown) + "\n")
