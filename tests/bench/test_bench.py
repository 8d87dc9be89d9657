"""Kinds of ``neuro bench`` for real, on small networks."""

import pytest
from support.configs import composed
from support.inside import neuro_inside, well
from support.tables import rows_of
from support.worlds import needs_mpi

from neuro_cli.bench.config import BenchConfig
from neuro_cli.bench.correlation import Correlation, bench_correlation, correlations, parts_of, sgd, trained
from neuro_cli.core.errors import ConfigError

TINY = """
from torch import nn


class Tiny(nn.Sequential):
    def __init__(self):
        super().__init__(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16, 10))
"""


@pytest.mark.slow
def test_bench_correlation_over_a_training_goes_by_seeds_and_steps(tmp_path, monkeypatch):
    """One training a seed, and the noise of an estimate does not depend on the steps that are asked for."""
    (tmp_path / "tiny.py").write_text(TINY)
    monkeypatch.syspath_prepend(tmp_path)
    gone = [f"~samplers.{name}" for name in ("noise_table", "permutation", "permutation_50", "permutation_10", "permutation_6")]
    setting = ("model._target_=tiny.Tiny", "correlation.populations=[64]", "repeats=2", "batch_size=16", *gone)

    def measured(*overrides):
        folder = tmp_path / str(len(overrides))
        folder.mkdir()
        bench_correlation(BenchConfig.of(composed(*setting, *overrides, verb="bench")), folder)
        return rows_of(folder / "correlation.csv")

    rows = measured("correlation.steps=[30,0,3]", "correlation.seeds=[2,1]")
    samplers = ["iid", "sign_flip", "sign_flip_outputs", "low_rank_1", "low_rank_4", "activation", "activation_all"]
    keys = ("seed", "sampler", "step", "repeat")
    assert [[row[key] for key in keys] for row in rows] == [
        [seed, name, step, repeat] for seed in "21" for name in samplers for step in ("0", "3", "30") for repeat in "01"
    ]
    own = [row["correlation"] for row in rows if row["sampler"] != "activation_all"]  # of one layer it is activation
    assert len(set(own)) == len(own)
    alone = measured("correlation.steps=30")  # the run's own seed, which is 1
    assert [row["correlation"] for row in alone] == [
        row["correlation"] for row in rows if (row["seed"], row["step"]) == ("1", "30")
    ]
    with pytest.raises(ConfigError, match=r"^correlation.steps=\[\]: must be a non-empty list, for example \[1,2\]$"):
        measured("correlation.steps=[]", "seed=1", "population=8")
    with pytest.raises(ConfigError, match=r"^correlation.seeds=one: must be an integer >= 0$"):
        measured("correlation.seeds=[one]", "population=8", "seed=1", "threads=1")


def test_the_training_on_which_correlations_are_measured_trains():
    """With its former rate of 0.05 this network ended with the biases of its outputs alone, and a loss as at the beginning."""
    setting = ("model=MNIST_10K", "task=digits", "batch_size=16", "population=4", "threads=1")
    config = BenchConfig.of(composed(*setting, verb="bench"))
    centres = trained(parts_of(config, **sgd(config.own(Correlation, "correlation").rate)), [0, 100])
    changes = {"sampler": config.samplers["iid"] | {"antithetic": True}, "algo": config.plain["algo"] | {"shaping": "raw"}}
    rows = list(correlations(parts_of(config, **changes), centres, 0.01, repeats=4))
    first, last = (sum(row["loss"] for row in rows if row["step"] == step) for step in (0, 100))
    assert last < first / 2
    config = BenchConfig.of(composed(*setting, "correlation.rate=0", verb="bench"))
    with pytest.raises(ConfigError, match=r"^correlation.rate=0: must be a number > 0"):
        config.own(Correlation, "correlation")


@pytest.mark.slow
@needs_mpi
def test_bench_ensemble_compares_with_one_graph(tmp_path):
    task = ("ensemble.task._target_=neuro_cli.task.digits.Digits", "~ensemble.task.root", "~ensemble.task.download")
    sizes = ("ensemble.algo.size=3", "ensemble.iterations=4", "ensemble.curve_iterations=5", "ensemble.batch_size=20")
    well(neuro_inside("bench", "ensemble", *task, *sizes, "hydra.run.dir=bench", cwd=tmp_path))
    rows = rows_of(tmp_path / "bench" / "ensemble.csv")
    exact = [row for row in rows if row["dtype"] == "float64"]
    assert [(row["method"], row["ranks"]) for row in exact] == [
        (method, ranks) for ranks in "123" for method in ("logits_allreduce", "logits_tree")
    ]
    assert all(float(row["largest_gap"]) < 1e-10 for row in exact)
    assert all(row["test_accuracy"] for row in rows if row["dtype"] == "float32")
    for row in rows:
        assert 0.0 <= float(row["early_gap"]) <= float(row["largest_gap"])
    assert (tmp_path / "bench" / "ensemble.png").stat().st_size > 10_000
    assert "difference from the first" in (tmp_path / "bench" / "ensemble.svg").read_text()
