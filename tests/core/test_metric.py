"""A metric is declared once; nothing else in the package knows its name."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import neuro_cli
from neuro_cli.core.metric import ACCURACY, LOSS, LOWER, RETURN, Metric, as_plain, from_plain

PACKAGE = Path(neuro_cli.__file__).parent
DECLARES = PACKAGE / "core" / "metric.py"


JOIN = re.compile(r"""["']\s*[a-zA-Z]*["']""")  # between parts of one literal


@cache  # three metrics are looked for
def joined(path: Path) -> str:
    """A module's text with the parts of literals joined: only what may have a name is parsed."""
    return JOIN.sub("", path.read_text())


def texts(path: Path) -> list[str]:
    """The string literals of a module that are no docstrings."""
    tree = ast.parse(path.read_text())
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
    ]


@pytest.mark.parametrize("metric", [ACCURACY, LOSS, RETURN])
def test_the_name_of_a_metric_stands_where_it_is_declared(metric):
    candidates = [path for path in PACKAGE.rglob("*.py") if metric.name in joined(path)]
    found = {path for path in candidates if any(metric.name in text for text in texts(path))}
    assert found == {DECLARES}


def test_a_declaration_comes_back():
    metrics = (Metric("error", "error of the test", ",.2f", "m", LOWER, column=False), ACCURACY, RETURN)
    assert from_plain(as_plain(metrics)) == metrics
    assert [metric.heading for metric in metrics] == ["error of the test (m)", "test accuracy", "mean return"]
    assert [metric.text(1234.5678) for metric in metrics] == ["1,234.57", "1234.5678", "1234.6"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "test error"}, "a metric's name='test error': must be letters, digits and _"),
        ({"name": 3}, "a metric's name=3: must be"),
        ({"label": "a\nb"}, r"metric a: label='a\\nb': must be text of at most 60"),
        ({"label": "x" * 61}, "must be text of at most 60"),
        ({"unit": 1}, "metric a: unit='1': must be text"),
        ({"form": ".999999999f"}, "must be a format like"),
        ({"form": "999999999.1f"}, "must be a format like"),
        ({"better": "more"}, "metric a: better='more': must be higher or lower"),
        ({"column": 1}, "metric a: column=1: must be True or False"),
        ({"colour": "red"}, "unexpected keyword argument 'colour'"),
    ],
)
def test_a_wrong_metric_is_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        from_plain([{"name": "a", "label": "a"} | fields])
