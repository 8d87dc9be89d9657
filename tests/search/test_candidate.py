"""What training a candidate gives, and what it refuses."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from support.configs import composed

from neuro_cli.core.errors import UserError
from neuro_cli.search.candidate import examples_of, task_of, train_candidate
from neuro_cli.search.command import check, completed
from neuro_cli.search.config import SearchConfig


@pytest.fixture(scope="module")
def config() -> SearchConfig:
    return completed(check(composed("training.epochs=2", "model.filters=4", verb="search")))


def payload(config: SearchConfig, *module: str, **model: Any) -> dict[str, Any]:
    described = copy.deepcopy(task_of(config, module, "test").payload)
    described["model"] |= model
    return described


def test_what_the_task_knows_is_filled_in(config):
    assert config.plain["model"]["input_shape"] == [1, 8, 8]
    assert config.plain["model"]["outputs"] == 10


def test_the_same_payload_gives_the_same_numbers_whatever_ran_before(config):
    first = train_candidate(payload(config, "5x5", "3x3"))
    torch.rand(5)
    train_candidate(payload(config, "1x1"))
    again = train_candidate(payload(config, "5x5", "3x3"))
    assert {**first, "seconds": 0} == {**again, "seconds": 0}
    assert set(first) == {"fitness", "loss", "train_loss", "test_accuracy", "test_loss", "parameters", "seconds"}


def test_another_seed_and_another_module_train_otherwise(config):
    tasks = [task_of(config, ("5x5",), "a"), task_of(replace(config, seed=2), ("5x5",), "a"), task_of(config, ("3x3",), "a")]
    assert len({task.payload["seed"] for task in tasks}) == 3
    assert len({task.id for task in tasks}) == 3
    assert task_of(config, ("5x5",), "a") == tasks[0]


def test_training_is_real_and_its_scores_are_of_examples_it_has_not_seen(config):
    """A network that is trained for longer is better on both parts; the parts are not the same."""
    short, long = payload(config, "5x5", "5x5"), payload(config, "5x5", "5x5")
    long["training"]["epochs"] = 8
    before, after = train_candidate(short), train_candidate(long)
    assert after["fitness"] > before["fitness"]
    assert after["fitness"] > 0.35  # chance is 0.1
    assert after["test_accuracy"] > 0.35
    examples = examples_of(*_address(config))
    assert after["fitness"] * len(examples.validation.targets) == pytest.approx(round(after["fitness"] * 287))
    assert after["test_accuracy"] * len(examples.data.test.targets) == pytest.approx(round(after["test_accuracy"] * 360))


def _address(config: SearchConfig) -> tuple[str, tuple[int, ...], float]:
    import json

    return (
        json.dumps(config.plain["task"], sort_keys=True),
        tuple(config.plain["model"]["input_shape"]),
        config.training.validation,
    )


def test_a_network_that_does_not_fit_in_memory_is_an_error_of_one_line(config):
    result = train_candidate(payload(config, "1x1", filters=10**7))  # 800 TB: no machine overcommits so much
    assert result["error"].startswith("it does not fit in memory: ")
    assert "\n" not in result["error"]
    assert "fitness" not in result


def test_a_training_that_diverges_is_an_error_of_one_line(config):
    wild = payload(config, "3x3", "3x3")
    wild["training"]["optimizer"] = {"_target_": "torch.optim.SGD", "_partial_": True, "lr": 1e20}
    assert train_candidate(wild)["error"] == "its training diverged: a loss is not a finite number"


@pytest.mark.parametrize("part", ["task", "model", "training.optimizer"])
@pytest.mark.parametrize("target", ["os.system", "neuro_cli.task.digits.gzip.open"])
def test_a_payload_that_names_a_foreign_class_is_refused(config, part, target):
    wrong = payload(config, "3x3")
    node = wrong
    for name in part.split("."):
        node = node[name]
    node["_target_"] = target
    with pytest.raises(UserError, match=rf"^{part}._target_={target}: candidates are made of classes of neuro and torch only$"):
        train_candidate(wrong)


def test_what_is_nested_in_a_payload_is_looked_at_too(config):
    wrong = payload(config, "3x3")
    wrong["training"]["optimizer"]["betas"] = [0.9, {"_target_": "os.system", "_args_": ["true"]}]
    with pytest.raises(UserError, match=r"^training.optimizer.betas.1._target_=os.system: candidates are made"):
        train_candidate(wrong)
    wrong["training"]["optimizer"]["betas"] = "${oc.create:{_target_: os.system, _args_: [true]}}"
    with pytest.raises(UserError, match=r"^training.optimizer.betas=.*: an interpolation is not resolved here$"):
        train_candidate(wrong)


def test_a_payload_without_a_part_is_refused(config):
    wrong = payload(config, "3x3")
    del wrong["training"]
    with pytest.raises(UserError, match=r"^training.optimizer._target_: it is missing in the config$"):
        train_candidate(wrong)
