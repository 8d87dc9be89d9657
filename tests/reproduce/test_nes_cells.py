"""Entries of NES's paper: every cell is one that its command writes, and the published layers are those of the text."""

import pytest
from support.configs import composed

from neuro_cli.bench.layer.cases import Layer, cases
from neuro_cli.core.files import config_folder
from neuro_cli.reproduce.entry import SIZES, Entry, entries_in, read_entry
from neuro_cli.runner.config import section

ENTRIES = entries_in(config_folder() / "table")
CELLS = {"nes_table_1": 18 + 3, "nes_table_2": 30 + 5, "nes_table_3": 18, "nes_table_4": 30}


def layers_of(config) -> set[str]:
    return {case.name for case in cases(section(Layer, config["layer"], "layer."))}


def written(entry: Entry, run: str) -> tuple[set[str], set[str], set[str]]:
    """Layers, methods and timed steps in the files of a run."""
    gone = [text.removeprefix("~samplers.") for text in entry.run(run).overrides if text.startswith("~samplers.")]
    values = [text for text in entry.run(run).overrides if not text.startswith("~")]
    config = composed(*values, verb="bench")  # without what is deleted, so that Hydra composes once for all runs
    for name in gone:
        del config["samplers"][name]
    methods = {"unperturbed", *config["samplers"]}
    steps = {f"{name} {step}" for name in config["samplers"] for step in config["layer"]["steps"]}
    return layers_of(config), methods, {"unperturbed", *steps}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [*CELLS, "nes_memory"])
def test_every_cell_is_one_that_its_command_writes(name, size):
    entry = read_entry(ENTRIES[name], size)
    for run in entry.runs:
        layers, methods, steps = written(entry, run.name)
        own = [row for row in entry.rows if row.run == run.name]
        assert {row.where["layer"] for row in own} == layers
        assert {row.where["what"] for row in own if "what" in row.where} <= steps
        assert {row.where["method"] for row in own if "method" in row.where} <= methods
        if size == "full" and "memory" not in name:  # nothing is measured for nothing
            used = {row.where["what"].rpartition(" ")[0] for row in own} - {""}
            assert used == methods - {"unperturbed"}


@pytest.mark.parametrize("name", CELLS)
def test_all_published_cells_are_there_under_the_paper_s_names(name):
    rows = [row for row in read_entry(ENTRIES[name], "full").rows if row.quantity.startswith(f"Table {name[-1]}: ")]
    assert len(rows) == len({row.name for row in rows}) == CELLS[name]
    assert all(row.published is not None and row.expect for row in rows)
    layers = dict.fromkeys(row.name.rpartition(", ")[0] for row in rows)
    linear, convolution = "256, 256/512, 512/512, 10", "3,64,32x32/64,64,32x32/128,128,16x16/256,256,8x8/512,512,4x4"
    assert "/".join(layers) == (linear if name[-1] in "13" else convolution)


def test_multiples_of_the_updates_are_table_3_over_table_1():
    rows = {row.name: row.published for row in read_entry(ENTRIES["nes_table_3"], "full").rows}
    assert rows["512, 512, IID, times unperturbed"] == 14.314 / 0.354
    assert rows["512, 10, Sign flip, times unperturbed"] == 0.329 / 0.233
