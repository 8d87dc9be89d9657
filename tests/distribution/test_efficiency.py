"""Efficiencies of a run that goes on: from made-up seconds against the definitions, and those that real ranks log."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.inside import neuro_in_one_world
from support.tables import rows_of
from support.worlds import needs_mpi

from neuro_cli.core.clock import Clock
from neuro_cli.distribution import efficiency
from neuro_cli.distribution.efficiency import EfficiencyMeter
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.logger.columns import RANK_COLUMNS

pytestmark = pytest.mark.xdist_group("ranks")

SETTING = ("population=8", "batch_size=16", "threads=1", "generations=4", "evaluate.every=4", "checkpoint.every=2")


class MadeTime:
    """A clock that only work moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def work(self, *seconds: float):
        """Something that takes so many seconds, call by call."""
        left = list(seconds)

        def run():
            self.now += left.pop(0)
            return np.zeros(1) if len(seconds) > 1 else torch.zeros(1)

        return run


@pytest.fixture
def clock(monkeypatch):
    made = MadeTime()
    monkeypatch.setattr(efficiency, "time", made)
    return made


def meter_of(ranks: int, sums_alone: float = 1.0) -> EfficiencyMeter:
    world = SingleProcess()
    world.size = ranks
    return EfficiencyMeter(world, Clock(), sums_alone, SimpleNamespace(state=dict, restore=lambda _: None))


def test_one_rank_is_projected_from_the_parts_of_a_generation(clock):
    meter = meter_of(4)
    meter.scores(clock.work(9.0, 1.5, 2.0))  # first; alone; among the others, who make it a third slower
    assert meter.aside == 10.5
    meter.sums(clock.work(0.25))
    meter.sums(clock.work(0.15))  # in pieces
    weak, strong = meter.take(seconds=4.0, communicated=1.0).values()
    shared = 0.75 * (2.0 + 0.4)  # what one rank with these members would need
    own = 4.0 - 1.0 - 2.4  # what every rank does in full
    assert weak == pytest.approx((shared + own) / 4.0)
    assert strong == pytest.approx((4 * shared + own) / (4 * 4.0))


def test_later_generations_score_once_and_keep_the_ratio(clock):
    meter = meter_of(2)
    meter.scores(clock.work(5.0, 2.0, 2.0))
    meter.take(2.0, 0.0)
    assert meter.aside == 0.0
    meter.scores(clock.work(3.0, np.nan))
    weak, strong = meter.take(seconds=4.0, communicated=1.0).values()
    assert (weak, strong) == (1.0 - 1.0 / 4.0, (2 * 3.0) / (2 * 4.0))


def test_sums_that_every_rank_repeats_count_once(clock):
    """One rank with a quarter of the members would make a quarter of them."""
    meter = meter_of(4, sums_alone=1 / 4)
    meter.scores(clock.work(1.0, 1.0, 1.0))
    meter.sums(clock.work(2.0))
    weak, strong = meter.take(seconds=3.0, communicated=0.0).values()
    assert weak == strong == pytest.approx((1.0 + 2.0 / 4) / 3.0)


@needs_mpi
def test_runs_on_ranks_log_their_efficiency_and_one_rank_does_not(tmp_path):
    """Nor do methods without members of a rank's own; the trained numbers are those of one rank."""
    methods = ("chromosome_updates", "semi_updates", "replicated", "auto", "data_parallel", "chromosome_updates")
    lines = [("train", *SETTING, f"distribution={name}", f"hydra.run.dir=run_{n}") for n, name in enumerate(methods)]
    for done in neuro_in_one_world(*lines, cwd=tmp_path, ranks=[2, 2, 2, 2, 2, 1]):
        assert done.returncode == 0, done.stderr
    rows, digests = [], []
    for number in range(len(methods)):
        rows.append(rows_of(tmp_path / f"run_{number}" / "metrics.csv"))
        summary = json.loads((tmp_path / f"run_{number}" / "summary.json").read_text())
        digests.append(summary["parameters_sha256"])
        assert all((name in summary) == (number < 4) for name in RANK_COLUMNS)
    for found in rows[:4]:
        assert all(0 < float(row["strong_efficiency"]) <= 1.5 * float(row["weak_efficiency"]) for row in found)
        # scoring alone is no part of the first generation
        parts = sum(float(found[0][f"seconds_{phase}"]) for phase in ("sample", "forward", "communicate", "update"))
        assert parts <= 1.05 * float(found[0]["seconds"])
        assert float(found[0]["bytes_sent"]) == float(found[1]["bytes_sent"])
    for found in rows[4:]:
        assert not set(RANK_COLUMNS) & found[0].keys()
    assert digests[0] == digests[2] == digests[3] == digests[5]
