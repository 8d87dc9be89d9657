"""``scripts/ten_networks.py``: its table, for two networks and a second."""

import runpy

import pytest
import torch
from support.inside import script_inside, well
from support.tables import rows_of
from test_kept_results import ROOT

SCRIPT = ROOT / "scripts" / "ten_networks.py"


def test_ten_networks_take_images_of_both_sizes():
    made = runpy.run_path(str(SCRIPT))
    assert len(made["NETWORKS"]) == 10
    for name in made["NETWORKS"]:
        for side in (8, 28):
            network = made["network"](name, side, 1)
            assert network(torch.zeros(2, 1, side, side)).shape == (2, 10), name
            again = made["network"](name, side, 1)
            assert all(torch.equal(a, b) for a, b in zip(network.parameters(), again.parameters(), strict=True))


@pytest.mark.slow
def test_the_table_has_a_row_for_each_network_and_way(tmp_path):
    words = ("--seconds", "1", "--only", "mlp_16x1", "ternary_cnn", "--out", "table.csv")
    well(script_inside(SCRIPT, *words, cwd=tmp_path))
    rows = rows_of(tmp_path / "table.csv")
    assert [(row["network"], row["way"]) for row in rows] == [
        (name, way) for name in ("mlp_16x1", "ternary_cnn") for way in ("activation", "sgd_of_torch", "sgd")
    ]
    for row in rows:
        assert row["failure"] or 0 <= float(row["accuracy"]) <= 1
        assert int(row["generations"]) >= 6 or row["failure"]
    assert not [row for row in rows if row["failure"] and row["way"] == "activation"]
