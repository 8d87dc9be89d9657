"""Schedules of a step size: warm-up, shapes, ends."""

import pytest

from neuro_cli.core.schedule import KINDS, Schedule, ended


@pytest.mark.parametrize("kind", KINDS)
def test_schedules_warm_up_then_go_from_one_to_final_and_stay(kind):
    schedule = Schedule("algo.lr_schedule", kind, 0.1, 20, warmup=4)
    assert [schedule.factor(g) for g in range(4)] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert schedule.factor(4) == pytest.approx(1.0)
    end = 1.0 if kind == "constant" else 0.1
    assert schedule.factor(20) == pytest.approx(end)
    assert schedule.factor(500) == pytest.approx(end)
    factors = [schedule.factor(g) for g in range(4, 21)]
    assert factors == sorted(factors, reverse=True)


def test_schedules_that_a_longer_run_outlives_are_told():
    node = {"kind": "cosine", "final": 0.1, "generations": 20, "warmup": 0}
    algo = {"sigma": 0.1, "lr_schedule": node, "sigma_schedule": node | {"kind": "constant"}}
    assert ended(algo, 80) == ["algo.lr_schedule ended at generation 20: its last factor holds from there on"]
    assert ended(algo, 20) == ended(object(), 80) == []
