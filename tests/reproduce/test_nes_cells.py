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
