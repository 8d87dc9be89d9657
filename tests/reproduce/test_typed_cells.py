"""The cells of ``published.yaml`` were typed by hand: they are those that a program reads in the papers' texts."""

import re
from pathlib import Path

import pytest
import yaml

TEXTS = Path(__file__).parents[3] / "shared" / "papers"
NUMBER = re.compile(r"\d*\.?\d+")

pytestmark = pytest.mark.skipif(not TEXTS.is_dir(), reason=f"the papers' texts are not in {TEXTS}")


def test_tables_1_to_4_of_nes():
    text = (TEXTS / "natural_evolution_strategies_on_gpu.txt").read_text()
    for number, cells in ((1, 21), (2, 35), (3, 18), (4, 30)):
        printed = {}
        for line in text[text.index(f"Table {number}:") :].splitlines()[:16]:
            method, *values = line.split("\t") if " ms" not in line else ["Unperturbed", *line.replace(" ms", "").split()]
            if values and all(map(NUMBER.fullmatch, values)):
                printed.setdefault(method, [float(value) for value in values])
        assert printed == typed(f"nes_table_{number}")
        assert sum(map(len, printed.values())) == cells


def test_the_minutes_of_distributed_evolution():
    text = (TEXTS / "distributed_evolution.txt").read_text()
    rows = re.findall(r"^\W*([A-Z]\w+)\W+([\d.]+)\W+([\d.]+)\W+([\d.]+)\W*$", text, re.MULTILINE)
    printed = {method: [float(row[place]) for row in rows] for place, method in enumerate(("DisES", "ES", "DDPG"), start=1)}
    assert len(rows) == 5
    assert printed == typed("distributed_evolution_table")


def typed(table: str) -> dict[str, list[float]]:
    """Lines of a table of the list, without the names of its columns."""
    found = yaml.safe_load((Path(__file__).parent / "published.yaml").read_text())[table]
    return {method: cells for method, cells in found.items() if method != "columns"}
