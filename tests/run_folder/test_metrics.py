"""One module reads metrics.csv, one reads other tables, and one knows the colours."""

import re
from pathlib import Path

import neuro_cli
from neuro_cli.run_folder.metrics import read_metrics

PACKAGE = Path(neuro_cli.__file__).parent
OWN_TABLES = {
    "reproduce/results.py",
    "bench/reinforcement.py",
    "bench/table.py",
    "logger/stored_rows.py",
    "task/language/problems.py",  # a user's
}  # each but the last reads back a file that neuro writes, and refuses another


def modules_with(pattern: str) -> set[str]:
    return {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if re.search(pattern, path.read_text())}


def test_tables_are_read_in_one_place():
    assert modules_with(r"DictReader") - OWN_TABLES == {"run_folder/rows.py"}
    # the logger mends the lines that a killed run left
    assert modules_with(r"csv\.reader") == {"run_folder/metrics.py", "logger/csv.py"}


def test_colours_are_named_in_one_place():
    assert modules_with(r"#(0072B2|E69F00|009E73|D55E00|CC79A7|56B4E9)") == {"run_folder/palette.py"}


def test_the_last_generation_is_that_of_the_last_whole_row(tmp_path):
    path = tmp_path / "metrics.csv"
    assert read_metrics(path).last == 0
    for text, last in (("", 0), ("1,2\n", 1), ("1,2\n2,\n", 2), ("1,2\n2,3", 1)):
        path.write_text(f"generation,x\n{text}")
        assert read_metrics(path).last == last


def test_points_are_the_finite_values(tmp_path):
    (tmp_path / "metrics.csv").write_text("generation,x\n1,2.5\n2,\n3,nan\n4,-inf\n5,3.5\n")
    generations, values = read_metrics(tmp_path / "metrics.csv").points("x")
    assert (generations.tolist(), values.tolist()) == ([1, 5], [2.5, 3.5])
    assert [len(part) for part in read_metrics(tmp_path / "metrics.csv").points("y")] == [0, 0]
