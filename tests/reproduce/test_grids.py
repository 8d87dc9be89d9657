"""Grids of an entry: the rows they stand for, and what is refused."""

import pytest
import yaml

from neuro_cli.core.errors import UserError
from neuro_cli.reproduce.entry import read_entry
from neuro_cli.reproduce.verdict import Expectation

ENTRY = """
title: t
source: s
minutes: {quick: 1, full: 1}
runs: {a: {verb: train}, b: {verb: bench}}
row: {quantity: of all}
rows: [{name: alone, run: a, file: f.csv, value: v, published: null, where: {x: 1}}]
grids:
  - run: a
    file: f.csv
    value: v
    where: {what: forward}
    columns: {"256, 256": {where: {layer: square}}, "512, 10": {where: {layer: wide}, size: full}}
    lines:
      IID: {where: {method: iid}, quantity: of a few, run: b}
      Sign flip:
        where: {method: sign_flip}
        expect:
          - {at_most: published}
          - {at_most: IID, times: ratio, slack: 1.25, gpu: true}
          - {at_least: alone, times: 0.5}
          - {at_most: 3, slack: 2}
    published: {IID: [28.52, 13.04], Sign flip: [2.39, null]}
  - name: "{column} of {line}"
    run: a
    file: f.csv
    value: w
    columns: {"256, 256": }
    lines: {d: {expect: [{at_most: "{column}, IID"}]}}
    published: {d: [3]}
    over: [4]
"""


def read(tmp_path, change=lambda node: None, size="full"):
    node = yaml.safe_load(ENTRY)
    node["grids"][0]["published"]["Sign flip"][1] = 2.22
    change(node)
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(node, sort_keys=False))
    return read_entry(path, size)


def test_a_grid_is_rows_with_the_published_numbers_as_typed(tmp_path):
    entry = read(tmp_path)
    assert [(row.name, row.published) for row in entry.rows] == [
        ("alone", None),
        ("256, 256, IID", 28.52),
        ("512, 10, IID", 13.04),
        ("256, 256, Sign flip", 2.39),
        ("512, 10, Sign flip", 2.22),
        ("256, 256 of d", 0.75),
    ]
    iid, flipped = entry.rows[1], entry.rows[3]
    assert flipped.where == {"what": "forward", "layer": "square", "method": "sign_flip"}
    assert (iid.run, iid.quantity, flipped.run, flipped.quantity) == ("b", "of a few", "a", "of all")
    assert flipped.expect == (
        Expectation("at_most", "published"),
        Expectation("at_most", "256, 256, IID", times=1.25 * (2.39 / 28.52), gpu=True),
        Expectation("at_least", "alone", times=0.5),
        Expectation("at_most", 3.0, times=2.0),
    )
    assert entry.rows[-1].expect == (Expectation("at_most", "256, 256, IID"),)


def test_a_column_of_full_is_not_of_quick(tmp_path):
    names = [row.name for row in read(tmp_path, size="quick").rows]
    assert names == ["alone", "256, 256, IID", "256, 256, Sign flip", "256, 256 of d"]


def first(**change):
    return lambda node: node["grids"][0].update(change)


def one_line_expects(expectation):
    return first(expect=[expectation], lines={"IID": {}}, published={})


BAD = [
    (lambda node: node.update(grids={}), "grids and rows must be lists"),
    (first(lines={}), "grids.0: lines is missing"),
    (first(colums={}), "grids.0: colums: no such key; did you mean columns"),
    (first(name="{line}"), "grids.0.name={line}: must have {column} and {line}"),
    (first(published={"IDI": [1, 2]}), "grids.0.published: IDI: no such key; did you mean IID"),
    (first(published={"IID": [1]}), "grids.0.published.IID=[1]: must be a list of 2 numbers, one for each column"),
    (first(published={"IID": [1, "two"]}), "grids.0.published.IID: two is no number"),
    (first(over=[1, 0]), "grids.0.over: 0 is no number > 0"),
    (first(published={"IID": [1, 2]}), "grids.0: 256, 256, Sign flip: no published ratio to IID"),
    (
        first(expect=[{"at_most": 3, "slack": "much"}], lines={"IID": {}}, published={}),
        "grids.0.expect.slack: much is no number > 0",
    ),
    (one_line_expects({"at_most": ["a"]}), "256, 256, IID: ['a']: no such row"),
    (one_line_expects({"at_most": "published"}), "an expectation of the published value, and none is published"),
]


@pytest.mark.parametrize(("change", "told"), BAD)
def test_a_wrong_grid_is_refused_in_a_line(tmp_path, change, told):
    with pytest.raises(UserError) as refused:
        read(tmp_path, change)
    assert told in str(refused.value)
    assert str(refused.value).startswith("table=mine: ")
    assert "\n" not in str(refused.value)
