"""Grids of an entry: published tables with a layer per column and a method per line, expanded to ordinary rows.

A grid has ``columns`` and ``lines``, mappings of names to settings of a row, ``published`` values (line: one for each column,
null where there is none), and the keys that all its rows share. A cell is the grid's settings, then the column's, then the
line's; their ``where`` are joined, and its name is ``name`` with {column} and {line} filled in. ``over``: a number for each
column that divides the published values. In an expectation of a cell another line's name means its cell of the same
column (``"{column}, LINE"`` one of another grid), and ``times: ratio`` the published ratio of the two cells, times ``slack``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from neuro_cli.core.errors import UserError
from neuro_cli.core.messages.did_you_mean import nearest

NAME = "{column}, {line}"
OF_GRID = ("name", "columns", "lines", "published", "over")
OF_ROW = ("run", "file", "value", "where", "never", "reduce", "spread", "quantity", "expect", "size")
RATIO = "ratio"
BOUNDS = ("at_most", "at_least", "near")


def with_grids(node: Any, where: str) -> Any:
    """Return an entry's ``node`` with the rows of its ``grids`` after its own ``rows``. Raises UserError."""
    if not isinstance(node, dict) or "grids" not in node:
        return node
    grids, rows = node["grids"], node.get("rows") or []
    if not isinstance(grids, list) or not isinstance(rows, list):
        raise UserError(f"{where}: grids and rows must be lists")
    cells = [row for number, grid in enumerate(grids) for row in _Grid(grid, f"{where}: grids.{number}").rows()]
    return {**{key: value for key, value in node.items() if key != "grids"}, "rows": [*rows, *cells]}


class _Grid:
    """Grid, read and checked."""

    def __init__(self, node: Any, where: str) -> None:
        self._where = where
        node = self._mapping(node, "", (*OF_GRID, *OF_ROW))
        self._columns, self._lines = (self._settings(node, name) for name in ("columns", "lines"))
        self._shared = {key: value for key, value in node.items() if key in OF_ROW}
        self._name = str(node.get("name", NAME))
        if "{column}" not in self._name or "{line}" not in self._name:
            raise UserError(f"{where}.name={self._name}: must have {{column}} and {{line}}, names are of one row each")
        self._published = self._values(node)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of all cells, line by line."""
        return [self._row(line, column) for line in self._lines for column in self._columns]

    def _row(self, line: str, column: str) -> dict[str, Any]:
        parts = (self._shared, self._columns[column], self._lines[line])
        row: dict[str, Any] = {key: value for part in parts for key, value in part.items()}
        wheres = (self._mapping(part.get("where") or {}, ".where") for part in parts)
        row["where"] = {key: value for where in wheres for key, value in where.items()}
        row["name"], row["published"] = self._cell(line, column), self._published[line, column]
        row["expect"] = [self._expectation(item, line, column) for item in row.get("expect") or []]
        return row

    def _cell(self, line: str, column: str) -> str:
        return self._name.replace("{column}", column).replace("{line}", line)

    def _expectation(self, item: Any, line: str, column: str) -> Any:
        """Return ``item`` as an ordinary expectation of a cell; anything else stays, for the reader of rows to refuse."""
        bound = next((key for key in BOUNDS if isinstance(item, dict) and key in item), None)
        if bound is None:
            return item
        other, expectation = item[bound], {key: value for key, value in item.items() if key != "slack"}
        if isinstance(other, str):
            expectation[bound] = self._cell(other, column) if other in self._lines else other.replace("{column}", column)
        if item.get("times") == RATIO:
            expectation["times"] = self._ratio(line, other, column)
        if "slack" in item:
            expectation["times"] = self._number(item["slack"], "expect.slack") * self._number(
                expectation.get("times", 1.0), "expect.times"
            )
        return expectation

    def _ratio(self, line: str, other: Any, column: str) -> float:
        ours, theirs = self._published[line, column], self._published.get((other, column))
        if ours is None or not theirs:
            raise UserError(f"{self._where}: {self._cell(line, column)}: no published ratio to {other}")
        return ours / theirs

    def _values(self, node: Mapping[str, Any]) -> dict[tuple[str, str], float | None]:
        published = self._mapping(node.get("published") or {}, ".published", tuple(self._lines))
        over = self._list(node["over"], ".over") if "over" in node else [1.0] * len(self._columns)
        by_cell: dict[tuple[str, str], float | None] = {(line, column): None for line in self._lines for column in self._columns}
        for line, values in published.items():
            for column, value, part in zip(self._columns, self._list(values, f".published.{line}"), over, strict=True):
                if value is not None:
                    by_cell[line, column] = value if part == 1.0 else value / part
        return by_cell

    def _list(self, values: Any, key: str) -> list[Any]:
        if not isinstance(values, list) or len(values) != len(self._columns):
            raise UserError(f"{self._where}{key}={values}: must be a list of {len(self._columns)} numbers, one for each column")
        return [value if value is None and key != ".over" else self._number(value, key[1:]) for value in values]

    def _number(self, value: Any, key: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or (key in ("over", "expect.slack") and value <= 0):
            raise UserError(f"{self._where}.{key}: {value} is no number" + (" > 0" if key in ("over", "expect.slack") else ""))
        return value

    def _settings(self, node: Mapping[str, Any], name: str) -> dict[str, dict[str, Any]]:
        if not node.get(name):
            raise UserError(f"{self._where}: {name} is missing")
        named = self._mapping(node[name], f".{name}")
        return {key: self._mapping(value or {}, f".{name}.{key}", OF_ROW) for key, value in named.items()}

    def _mapping(self, node: Any, key: str, allowed: tuple[str, ...] | None = None) -> dict[str, Any]:
        return mapping(node, f"{self._where}{key}", allowed)


def mapping(node: Any, where: str, allowed: Sequence[str] | None = None, required: Sequence[str] = ()) -> dict[str, Any]:
    """Return ``node`` if it is a mapping with the ``required`` keys and none but ``allowed`` ones. Raises UserError."""
    if not isinstance(node, dict):
        raise UserError(f"{where}: must be a mapping of keys")
    missing = [key for key in required if key not in node]
    if missing:
        raise UserError(f"{where}: {missing[0]} is missing")
    strange = [str(key) for key in node if allowed is not None and str(key) not in allowed]
    if strange:
        raise UserError(f"{where}: {strange[0]}: no such key; {nearest(strange[0], allowed or ())}")
    return {str(key): value for key, value in node.items()}
