"""``neuro bench semi_updates``: what its runs are, and the whole on real ranks."""

import csv

import pytest
from support.configs import composed
from support.inside import neuro_inside, one_line
from support.worlds import needs_mpi

from neuro_cli.bench.config import BenchConfig
from neuro_cli.bench.semi_updates import SemiUpdates, curves
from neuro_cli.runner.config import RunConfig


def test_a_run_is_of_the_section_with_its_own_schedule():
    config = BenchConfig.of(composed("what=semi_updates", "semi_updates.generations=7", verb="bench"))
    own = config.own(SemiUpdates, "semi_updates")
    made = own.run_config(config, "semi_updates_local", 5)
    RunConfig.of(made)
    assert (made["seed"], made["generations"], made["population"]) == (5, 7, 32)
    assert made["distribution"]["ranks_shaping"] == "local"
    assert made["algo"]["lr_schedule"]["generations"] == 7
    assert made["model"]["_target_"].endswith("MNIST_10K")
    assert own.run_config(config, "semi_updates", 5)["distribution"]["ranks_shaping"] == "global"


def test_a_curve_has_the_spread_of_its_seeds():
    rows = [
        {"method": "m", "ranks": 2, "seed": seed, "generation": 10, "test_accuracy": value}
        for seed, value in ((1, 0.5), (2, 0.75), (3, 0.25))
    ]
    assert curves(rows) == {"m, 2 ranks": {10: (0.5, 0.25, 0.75)}}


@needs_mpi
@pytest.mark.slow  # four starts of two ranks
def test_exact_semi_updates_learn_as_chromosome_updates_do(tmp_path):
    small = ("semi_updates.ranks=[2,1]", "semi_updates.seeds=[1]", "semi_updates.generations=3", "semi_updates.every=2")
    done = neuro_inside("bench", "semi_updates", *small, "semi_updates.population=8", "hydra.run.dir=bench", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "bench" / "semi_updates.csv").open() as file:
        found = {(row["method"], row["ranks"], row["generation"]): float(row["test_accuracy"]) for row in csv.DictReader(file)}
    assert {key[:2] for key in found} == {
        ("chromosome_updates", "2"), ("semi_updates", "2"), ("semi_updates_local", "2"), ("semi_updates_local", "1"),
    }  # fmt: skip
    assert {key[2] for key in found} == {"2", "3"}
    for at in ("2", "3"):
        exact = found["chromosome_updates", "2", at]
        assert found["semi_updates", "2", at] == pytest.approx(exact, abs=0.01)
        assert found["semi_updates_local", "1", at] == pytest.approx(exact, abs=0.01)  # one rank shapes the whole population
    assert (tmp_path / "bench" / "semi_updates.svg").exists()


def test_ranks_that_are_no_list_are_refused(tmp_path):
    done = neuro_inside("bench", "semi_updates", "semi_updates.ranks=2", "hydra.run.dir=bench", cwd=tmp_path)
    assert one_line(done) == "semi_updates.ranks=2: must be a non-empty list, for example [1,2]"
