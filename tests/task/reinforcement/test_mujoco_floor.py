"""Models with listed collisions: taken where nothing but a floor can be hit and every bit stays, else MuJoCo searches."""

import logging

import numpy as np
import pytest

from neuro_cli.task.reinforcement import mujoco_floor
from neuro_cli.task.reinforcement.environment import EnvironmentFactory
from neuro_cli.task.reinforcement.mujoco_floor import alike, listed

pytest.importorskip("gymnasium")
pytest.importorskip("mujoco")


def made(identifier: str):
    return EnvironmentFactory(identifier, 10, {}).make()


@pytest.mark.parametrize(("identifier", "pairs"), [("HalfCheetah-v5", 8), ("Walker2d-v5", 7)])
def test_shapes_that_only_hit_the_floor_are_listed(identifier, pairs):
    environment = made(identifier)
    model = listed(environment)
    assert (model.npair, model.geom_contype.sum(), environment.unwrapped.model.npair) == (pairs, 0, 0)
    assert alike(environment.unwrapped.model, model)


@pytest.mark.parametrize(
    ("identifier", "reason"),
    [
        ("Hopper-v5", "shapes can hit each other, or nothing"), ("Swimmer-v5", "shapes can hit each other, or nothing"),
        ("Ant-v5", "its contacts begin before shapes touch"),
    ],
)  # fmt: skip
def test_other_models_stay_as_they_are(identifier, reason, caplog):
    caplog.set_level(logging.INFO)
    environment = made(identifier)
    assert listed(environment) is environment.unwrapped.model
    assert f"{identifier}: MuJoCo searches for collisions, slower: {reason}" in caplog.text


CHANGES = {
    "geom_gap": "its contacts begin before shapes touch", "geom_margin": "its contacts begin before shapes touch",
    "geom_solref": "its shapes are of several kinds", "geom_condim": "its shapes are of several kinds",
    "geom_priority": "its shapes are of several kinds", "geom_conaffinity": "shapes can hit each other, or nothing",
}  # fmt: skip


@pytest.mark.parametrize("numbers", CHANGES)
def test_numbers_that_could_be_mixed_otherwise_are_left_alone(numbers, caplog):
    caplog.set_level(logging.INFO)
    environment = made("HalfCheetah-v5")
    model = environment.unwrapped.model
    getattr(model, numbers)[3] += 1
    assert listed(environment) is model
    assert CHANGES[numbers] in caplog.text


@pytest.mark.parametrize("numbers", ["body_mass", "geom_friction"])
def test_a_model_that_was_changed_is_not_replaced_by_its_file(numbers, caplog):
    caplog.set_level(logging.INFO)
    environment = made("HalfCheetah-v5")
    model = environment.unwrapped.model
    getattr(model, numbers)[1] *= 1.5
    assert listed(environment) is model
    assert "the outcome would differ" in caplog.text


def test_models_that_touch_nothing_are_not_known_to_be_alike(monkeypatch):
    environment = made("HalfCheetah-v5")
    model = environment.unwrapped.model
    monkeypatch.setattr(mujoco_floor, "SUBSTEPS", 2)
    model.qpos0[1] = 5.0  # above the floor
    assert not alike(model, model)
    assert np.isfinite(model.qpos0).all()
