"""Entry of ``neuro reproduce``: one YAML file of ``conf/table/``, read and checked.

An entry has a source, published values, runs (commands of other verbs), and rows, each a number from a run's files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from neuro_cli.core.errors import UserError, nearest
from neuro_cli.reproduce.grid import with_grids
from neuro_cli.reproduce.requirements import NEEDS
from neuro_cli.reproduce.verdict import KINDS, PUBLISHED, Expectation

SIZES = ("quick", "full")
REDUCTIONS = ("median", "mean")
VERBS = ("train", "bench", "scale", "search")


@dataclass(frozen=True)
class RunSetting:
    """Command of an entry. ``overrides``: of the chosen size; ``gpu``: more with a GPU; ``needs``: see ``requirements.py``."""

    name: str
    verb: str
    overrides: tuple[str, ...]
    gpu: tuple[str, ...]
    needs: Mapping[str, Any]


@dataclass(frozen=True)
class EntryRow:
    """Row with a measured number: ``value`` (a column, or a dotted key of JSON) of the rows of ``file`` that ``where`` chooses.

    ``never``: rows of this kind count as infinite (a goal that was not reached). ``published`` None: not known to us.
    """

    name: str
    run: str
    file: str
    value: str
    where: Mapping[str, Any]
    never: Mapping[str, Any]
    reduce: str
    spread: tuple[str, str] | None
    quantity: str
    published: float | None
    expect: tuple[Expectation, ...]


@dataclass(frozen=True)
class Entry:
    """Published table or figure at one size. ``minutes``: approximate duration on two cores."""

    name: str
    size: str
    title: str
    source: str
    note: str
    minutes: Mapping[str, float]
    runs: tuple[RunSetting, ...]
    rows: tuple[EntryRow, ...]

    def run(self, name: str) -> RunSetting:
        return next(run for run in self.runs if run.name == name)


def entries_in(folder: Path) -> dict[str, Path]:
    """Entries by name."""
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def read_entry(path: Path, size: str) -> Entry:
    """Read the entry in the file ``path`` at ``size``. Raises UserError for any other file."""
    try:
        node = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"table={path}: it cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"table={path}: it is no YAML: {' '.join(str(error).split())[:160]}") from error
    where = f"table={path.stem}"
    node = _node(with_grids(node, where), where, ("title", "source", "minutes", "runs", "rows"), ("note", "row"))
    runs = tuple(_run(name, run, size, f"{where}: runs.{name}") for name, run in _mapping(node["runs"], f"{where}: runs").items())
    common = _mapping(node.get("row") or {}, f"{where}: row")
    listed = node["rows"] if isinstance(node["rows"], list) else []
    chosen = [(number, row) for number, row in enumerate(listed) if not isinstance(row, dict) or row.get("size", size) == size]
    rows = tuple(_row({**common, **_mapping(row, f"{where}: rows.{i}")}, f"{where}: rows.{i}") for i, row in chosen)
    minutes = _node(node["minutes"], f"{where}: minutes", SIZES)
    entry = Entry(path.stem, size, str(node["title"]), _text(node["source"]), _text(node.get("note")), minutes, runs, rows)
    _check(entry, where)
    used = {row.run for row in rows}
    return replace(entry, runs=tuple(run for run in runs if run.name in used))  # a size may need some of them only


def _check(entry: Entry, where: str) -> None:
    """Check that names are unique and refer to existing runs and rows. Raises UserError."""
    names, runs = [row.name for row in entry.rows], [run.name for run in entry.runs]
    if not names or len(set(names)) < len(names):
        raise UserError(f"{where}: rows must have names of their own, at least one row for size={entry.size}")
    for row in entry.rows:
        if row.run not in runs:
            raise UserError(f"{where}: {row.name}: run {row.run}: no such run; {nearest(row.run, runs)}")
        for expectation in row.expect:
            if expectation.of == PUBLISHED and row.published is None:
                raise UserError(f"{where}: {row.name}: an expectation of the published value, which is not known")
            if isinstance(expectation.of, str) and expectation.of not in (PUBLISHED, *names):
                raise UserError(f"{where}: {row.name}: {expectation.of}: no such row; {nearest(expectation.of, names)}")


def _run(name: str, node: Any, size: str, where: str) -> RunSetting:
    node = _node(node, where, ("verb",), ("overrides", "gpu", "needs", *SIZES))
    if node["verb"] not in VERBS:
        raise UserError(f"{where}.verb={node['verb']}: must be one of {', '.join(VERBS)}")
    overrides = (*_texts(node.get("overrides"), where), *_texts(node.get(size), where))
    needs = _node(node.get("needs") or {}, f"{where}.needs", (), (*NEEDS, *SIZES))
    own = _node(needs.get(size) or {}, f"{where}.needs.{size}", (), tuple(NEEDS))
    needs = {name: value for name, value in needs.items() if name not in SIZES} | own
    return RunSetting(name, node["verb"], overrides, _texts(node.get("gpu"), where), needs)


def _row(node: Any, where: str) -> EntryRow:
    required = ("name", "run", "file", "value", "quantity", "published")
    optional = ("where", "never", "reduce", "spread", "expect", "size")
    node = _node(node, where, required, optional)
    published, reduce, spread = node["published"], node.get("reduce", "median"), node.get("spread")
    if published is not None and (isinstance(published, bool) or not isinstance(published, int | float)):
        raise UserError(f"{where}.published={published}: must be a number, or null where it is not known to us")
    if reduce not in REDUCTIONS:
        raise UserError(f"{where}.reduce={reduce}: must be one of {', '.join(REDUCTIONS)}")
    if spread is not None and (not isinstance(spread, list) or len(spread) != 2):
        raise UserError(f"{where}.spread={spread}: must be two columns, of the least and the most")
    return EntryRow(
        name=str(node["name"]),
        run=str(node["run"]),
        file=str(node["file"]),
        value=str(node["value"]),
        where=_mapping(node.get("where") or {}, f"{where}.where"),
        never=_mapping(node.get("never") or {}, f"{where}.never"),
        reduce=reduce,
        spread=None if spread is None else (str(spread[0]), str(spread[1])),
        quantity=str(node["quantity"]),
        published=None if published is None else float(published),
        expect=tuple(_expectation(item, f"{where}.expect") for item in node.get("expect") or ()),
    )


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
    """Check that ``node`` is a mapping with allowed keys, and return it. Raises UserError."""
    node = _mapping(node, where)
    missing = [key for key in required if key not in node]
    if missing:
        raise UserError(f"{where}: {missing[0]} is missing")
    strange = [key for key in node if key not in (*required, *optional)]
    if strange:
        raise UserError(f"{where}: {strange[0]}: no such key; {nearest(strange[0], (*required, *optional))}")
    return node


def _mapping(node: Any, where: str) -> dict[str, Any]:
    if not isinstance(node, dict):
        raise UserError(f"{where}: must be a mapping of keys")
    return {str(key): value for key, value in node.items()}


def _texts(node: Any, where: str) -> tuple[str, ...]:
    if not isinstance(node, list | None) or not all(isinstance(text, str) for text in node or ()):
        raise UserError(f"{where}: overrides must be a list of texts key=value")
    return tuple(node or ())


def _text(node: Any) -> str:
    return " ".join(str(node or "").split())
