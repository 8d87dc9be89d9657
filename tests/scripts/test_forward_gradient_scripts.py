"""Scripts that compare estimates with gradients, layer by layer and in trainings: their tables, on small networks."""

import csv
import runpy

import pytest
import torch
from support.inside import script_inside, well
from support.tables import rows_of
from test_kept_results import ROOT
from torch import nn

SCRIPTS = ROOT / "scripts"


def test_cosines_are_of_each_layer_and_of_all():
    script = runpy.run_path(str(SCRIPTS / "gradient_by_layer.py"))
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    case = script["Case"](network, torch.randn(64, 4), torch.randint(2, (64,)), 1)
    rows = script["table"]("tiny", case, 0, [64], ["alone", "plain"], 2)
    assert [row["layer"] for row in rows] == ["0", "2", "all"]
    assert float(rows[-1]["plain 64"]) > 0.8
    assert float(rows[-1]["alone 64"]) > 0.99
    norm = nn.BatchNorm1d(4)
    _, gradients = script["true_gradients"](case._replace(network=nn.Sequential(norm, network)))
    assert gradients.keys() >= {"0.weight", "1.0.weight"}
    assert norm.running_mean.count_nonzero() == 0  # its statistics stay


def test_both_ways_learn_from_one_split():
    script = runpy.run_path(str(SCRIPTS / "twenty_networks.py"))
    script["IMAGES"]["tiny"] = script["NETWORKS"]["tiny"] = lambda: nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))
    assert [len(part) for part in script["data"]("tiny")] == [1797, 1797]
    assert script["data"]("hf_bert")[0].dtype == torch.int64
    for way in script["WAYS"]:
        accuracy, steps, _ = script["train"]("tiny", 40, 1e9, 64, way)
        assert accuracy > 0.6
        assert steps == 40
    assert script["train"]("tiny", 40, 0.0001, 64, "backward")[1] < 40


def test_cosines_are_those_of_the_steps_of_a_training():
    script = runpy.run_path(str(SCRIPTS / "gradient_in_training.py"))
    rows = script["rows_of"]("tied", [1, 3], 16, 1e-4, {"correction": "never"})
    assert [row[:2] for row in rows] == [["tied", "1"], ["tied", "3"]]
    assert all(float(row[2]) > 0.9999 and row[3] == "0 of 7" for row in rows)
    [row] = script["rows_of"]("tied", [1], 16, 1e-4, {"control_variates": False})
    assert float(row[2]) < 0.9
    assert row[3] == "7 of 7"


@pytest.mark.slow  # processes for packages of networks, which compile their passes
def test_the_tables_have_a_row_for_each_network(tmp_path):
    pytest.importorskip("timm")
    words = ("--only", "timm_mixer", "--steps", "2", "--batch-size", "8", "--csv", "twenty.csv")
    well(script_inside(SCRIPTS / "twenty_networks.py", *words, cwd=tmp_path))
    with (tmp_path / "twenty.csv").open() as file:
        ((name, size, _, steps, *_),) = csv.reader(file)
    assert (name, int(size) > 1000, steps) == ("timm_mixer", True, "2")
    words = ("--only", "char_gpt", "--examples", "2", "--draws", "1", "--steps", "2", "--ways", "plain", "--csv", "layers.csv")
    well(script_inside(SCRIPTS / "gradient_by_layer.py", *words, cwd=tmp_path))
    assert [row["layer"] for row in rows_of(tmp_path / "layers.csv")][-1] == "all"
