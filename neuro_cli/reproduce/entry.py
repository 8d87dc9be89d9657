"""Entry of ``neuro reproduce``: one YAML file of ``conf/table/``, read and checked.

An entry has a source, published values, runs (commands of other verbs), and rows, each a number from a run's files.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from neuro_cli.core.checks import number
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.messages.did_you_mean import nearest
from neuro_cli.reproduce.grid import mapping, with_grids
from neuro_cli.reproduce.requirements import NEEDS
from neuro_cli.reproduce.verdict import KINDS, PUBLISHED, Expectation
from neuro_cli.runner.config import choice, key, keys_of, or_none, section

SIZES = ("quick", "full")
OPTIONAL = {"where": None, "never": None, "reduce": "median", "spread": None, "expect": None}  # keys of rows, by default
VERBS = ("train", "bench", "scale", "search", "evolve")  # each begins a run folder
OF_A_RUN = ("resume", "evaluate", "report", "export", "predict")  # verbs on the folder of another run of the entry
AS_TYPED = ("export", "predict")  # verbs that take paths as they are, without the quotes of Hydra's grammar


@dataclass(frozen=True)
class RunSetting:
    """Command of an entry. ``overrides``: of the chosen size; ``gpu``: more with a GPU; ``needs``: see ``requirements.py``.

    ``of``: the earlier run with the folder that a verb of ``OF_A_RUN`` works on; empty for other verbs.
    """

    name: str
    verb: str
    of: str
    overrides: tuple[str, ...]
    gpu: tuple[str, ...]
    needs: Mapping[str, Any]


def _plain(key: str, value: Any) -> str:
    return str(value)


def _spread(key: str, value: Any) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise ConfigError(key, value, "must be two columns, of the least and the most")
    return str(value[0]), str(value[1])


@dataclass(frozen=True)
class EntryRow:
    """Row with a measured number: ``value`` (a column, or a dotted key of JSON) of the rows of ``file`` that ``where`` chooses.

    ``never``: rows of this kind count as infinite (a goal that was not reached). ``published`` None: not in the source.
    """

    name: str = key(_plain)
    run: str = key(_plain)
    file: str = key(_plain)
    value: str = key(_plain)
    where: Mapping[str, Any] = key(lambda key, node: mapping(node or {}, key))
    never: Mapping[str, Any] = key(lambda key, node: mapping(node or {}, key))
    reduce: str = key(choice("median", "mean"))
    spread: tuple[str, str] | None = key(or_none(_spread))
    quantity: str = key(_plain)
    published: float | None = key(or_none(number))
    expect: tuple[Expectation, ...] = key(lambda key, nodes: tuple(_expectation(node, key) for node in nodes or ()))


@dataclass(frozen=True)
class Entry:
    """Published table or figure at one size. ``minutes``: approximate duration on two cores.

    ``figures``: patterns of pictures in a run's folder, by run, that belong to the results.
    """

    name: str
    size: str
    title: str
    source: str
    note: str
    minutes: Mapping[str, float]
    runs: tuple[RunSetting, ...]
    rows: tuple[EntryRow, ...]
    figures: Mapping[str, tuple[str, ...]]

    def run(self, name: str) -> RunSetting:
        return next(run for run in self.runs if run.name == name)


def entries_in(folder: Path) -> dict[str, Path]:
    """Return the files of entries by name; ``all.yaml`` is none, it chooses them all."""
    return {path.stem: path for path in sorted(folder.glob("*.yaml")) if path.stem != "all"}


def read_entry(path: Path, size: str) -> Entry:
    """Read the entry in the file ``path`` at ``size``. Raises UserError for any other file."""
    try:
        node = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"table={path}: it cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"table={path}: it is no YAML: {' '.join(str(error).split())[:160]}") from error
    return entry_of(path.stem, node, size)


def entry_of(name: str, node: Any, size: str, more: Sequence[str] = ()) -> Entry:
    """Check the entry ``name`` of the config ``node`` at ``size``. ``more``: overrides for its commands. Raises UserError."""
    where = f"table={name}"
    node = _node(with_grids(node, where), where, ("title", "source", "minutes", "runs", "rows"), ("note", "row", "figures"))
    listed = mapping(node["runs"], f"{where}: runs")
    runs = tuple(_run(run, listed[run], size, more, f"{where}: runs.{run}") for run in listed)
    rows = tuple(_rows(node, size, where))
    minutes = _node(node["minutes"], f"{where}: minutes", SIZES)
    figures = {
        run: _texts(patterns, f"{where}: figures.{run}")
        for run, patterns in mapping(node.get("figures") or {}, f"{where}: figures").items()
    }
    entry = Entry(name, size, str(node["title"]), _text(node["source"]), _text(node.get("note")), minutes, runs, rows, figures)
    _check(entry, where)
    used = _used(entry)  # a size may need some of the runs only
    shown = {run: patterns for run, patterns in figures.items() if run in used}
    return replace(entry, runs=tuple(run for run in runs if run.name in used), figures=shown)


def _rows(node: Mapping[str, Any], size: str, where: str) -> Iterator[EntryRow]:
    """Yield the rows of ``size``, each with the keys of ``row`` too."""
    common = mapping(node.get("row") or {}, f"{where}: row")
    listed = node["rows"] if isinstance(node["rows"], list) else []
    for place, row in enumerate(listed):
        if not isinstance(row, dict) or row.get("size", size) == size:
            yield _row({**common, **mapping(row, f"{where}: rows.{place}")}, f"{where}: rows.{place}")


def _used(entry: Entry) -> set[str]:
    """Return the names of the runs that rows need, and of the runs that these work on."""
    used = {row.run for row in entry.rows}
    for run in reversed(entry.runs):
        if run.name in used and run.of:
            used.add(run.of)
    return used


def _check(entry: Entry, where: str) -> None:
    """Check that names are unique and refer to existing runs and rows. Raises UserError."""
    names, runs = [row.name for row in entry.rows], [run.name for run in entry.runs]
    if not names or len(set(names)) < len(names):
        raise UserError(f"{where}: rows must have names of their own, at least one row for size={entry.size}")
    for place, run in enumerate(entry.runs):
        if run.of and run.of not in runs[:place]:
            raise UserError(f"{where}: runs.{run.name}.of={run.of}: must be a run before it; {nearest(run.of, runs[:place])}")
    for name in entry.figures:
        if name not in runs:
            raise UserError(f"{where}: figures.{name}: no such run; {nearest(name, runs)}")
    for row in entry.rows:
        if row.run not in runs:
            raise UserError(f"{where}: {row.name}: run {row.run}: no such run; {nearest(row.run, runs)}")
        for expectation in row.expect:
            if expectation.of == PUBLISHED and row.published is None:
                raise UserError(f"{where}: {row.name}: an expectation of the published value, and none is published")
            if isinstance(expectation.of, str) and expectation.of not in (PUBLISHED, *names):
                raise UserError(f"{where}: {row.name}: {expectation.of}: no such row; {nearest(expectation.of, names)}")


def _run(name: str, node: Any, size: str, more: Sequence[str], where: str) -> RunSetting:
    node = _node(node, where, ("verb",), ("of", "overrides", "gpu", "needs", *SIZES))
    verb, of = node["verb"], node.get("of")
    if verb not in (*VERBS, *OF_A_RUN):
        raise UserError(f"{where}.verb={verb}: must be one of {', '.join((*VERBS, *OF_A_RUN))}")
    if (of is None) == (verb in OF_A_RUN):
        raise UserError(f"{where}.of={of}: {', '.join(OF_A_RUN)} need the name of another run there, other verbs have none")
    added = more if verb in VERBS else ()
    overrides = (*_texts(node.get("overrides"), where), *_texts(node.get(size), where), *added)
    needs = _node(node.get("needs") or {}, f"{where}.needs", (), (*NEEDS, *SIZES))
    own = _node(needs.get(size) or {}, f"{where}.needs.{size}", (), tuple(NEEDS))
    needs = {name: value for name, value in needs.items() if name not in SIZES} | own
    return RunSetting(name, verb, str(of or ""), overrides, _texts(node.get("gpu"), where), needs)


def _row(node: Any, where: str) -> EntryRow:
    required = tuple(name for name in keys_of(EntryRow) if name not in OPTIONAL)
    return section(EntryRow, OPTIONAL | _node(node, where, required, (*OPTIONAL, "size")), f"{where}.")


def _expectation(node: Any, where: str) -> Expectation:
    node = _node(node, where, (), (*KINDS, "times", "within", "gpu"))
    kinds = [kind for kind in KINDS if kind in node]
    if len(kinds) != 1:
        raise UserError(f"{where}: must have one of {', '.join(KINDS)}")
    of = node[kinds[0]]
    return Expectation(
        kinds[0],
        float(of) if isinstance(of, int | float) else str(of),
        float(node.get("times", 1.0)),
        float(node.get("within", 0.0)),
        bool(node.get("gpu", False)),
    )


def _node(node: Any, where: str, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    return mapping(node, where, (*required, *optional), required)


def _texts(node: Any, where: str) -> tuple[str, ...]:
    if not isinstance(node, list | None) or not all(isinstance(text, str) for text in node or ()):
        raise UserError(f"{where}: overrides must be a list of texts key=value")
    return tuple(node or ())


def _text(node: Any) -> str:
    return " ".join(str(node or "").split())
