"""Every option of every group composes with the others' defaults and becomes what its group promises.

The options are listed from ``conf/``: a new one is tested the moment its YAML exists.
"""

import copy
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra.utils import get_object
from omegaconf import OmegaConf
from support.configs import composed
from torch import nn

from neuro_cli.algo.base import Algorithm
from neuro_cli.cli.options.groups import groups, option_of
from neuro_cli.cli.options.help import keys_of
from neuro_cli.core.errors import UserError
from neuro_cli.core.files import config_folder
from neuro_cli.distribution.method import Method
from neuro_cli.election.base import Election
from neuro_cli.fabric.network import Network
from neuro_cli.factory.instantiate import OURS, is_ours, make
from neuro_cli.logger.base import Logger
from neuro_cli.pool.base import Pool
from neuro_cli.run_folder.identity import identity_of
from neuro_cli.runner.config import RunConfig
from neuro_cli.runner.options import Options
from neuro_cli.sampler.base import Estimator
from neuro_cli.search.command import OURS as SEARCH
from neuro_cli.selection.base import Selection
from neuro_cli.strategy.base import Strategy
from neuro_cli.task.base import Task

pytestmark = pytest.mark.xdist_group("options")

EXPECTED = {
    "task": Task,
    "model": nn.Module,
    "sampler": Estimator,
    "algo": Algorithm,
    "distribution": Method,
    "fabric": Network,
    "logger": Logger,
    "election": Election,
    "selection": Selection,
    "pool": Pool,
    "strategy": Strategy,
}
TRAINED = ("algo", "task", "distribution", "logger")  # groups with a run of each option in tests/contracts
ROOTS = {"election": "evolve", "selection": "evolve", "pool": "search", "strategy": "search"}  # groups of another verb than train
GROUPS = {group: options for group, options in groups().items() if group != "experiment"}
OPTIONS = [(group, option) for group, options in GROUPS.items() for option in options]
MARKS = {"_target_", "_partial_", "defaults"}  # Hydra's own


def nodes(config: Any) -> list[dict[str, Any]]:
    """Every node of a nested config that names a ``_target_``."""
    if not isinstance(config, dict):
        return []
    return ([config] if "_target_" in config else []) + [found for value in config.values() for found in nodes(value)]


def test_every_group_has_options_and_a_contract():
    assert GROUPS.keys() == EXPECTED.keys()
    assert all(GROUPS.values())
    for verb in ("train", "evolve", "search"):
        defaults = OmegaConf.load(config_folder() / f"{verb}.yaml").defaults
        named = {key for entry in defaults if OmegaConf.is_dict(entry) for key in entry if not str(key).startswith("override ")}
        own = {group for group in GROUPS if ROOTS.get(group, "train") == verb}
        # a search has some groups of train too
        assert own <= named - {"experiment"} <= (own if verb != "search" else {*own, *GROUPS} - {"election", "selection"})


def pretrained(folder: Path) -> Path:
    """A tiny network where the user's would be."""
    pytest.importorskip("transformers")
    from support.tiny_language import tiny_model

    return tiny_model(folder)


@pytest.mark.parametrize(("group", "option"), [pair for pair in OPTIONS if pair[0] not in TRAINED])
def test_an_option_composes_and_becomes_its_kind(group, option, tmp_path):
    verb = ROOTS.get(group, "train")
    needs = [f"model.path={pretrained(tmp_path)}"] if option == "huggingface" else []
    config = composed(f"{group}={option}", *needs, verb=verb)
    if verb != "search":
        RunConfig.of(config)
    assert isinstance(make(Options(config).plain, group, EXPECTED[group]), EXPECTED[group])


SIGNED = ("task.step_bonus", "task.reward_failed")  # numbers that may be negative
NAMES = ("task.problems",)  # of a file, among others
CHOICE = re.compile(r"\w+( \| \w+)+")  # of a key's comment: words of which its value is one


def refusals(node: dict[str, Any], comments: dict[str, str], group: str, path: tuple[str, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of a key and a value that it cannot have: of numbers, booleans, and words that a comment lists."""
    for name, value in node.items():
        inner = (*path, name)
        if ".".join((group, *inner)) in NAMES:
            continue
        if isinstance(value, dict) and name != "optimizer":  # which is refused at the start, with the parameters at hand
            yield from refusals(value, comments, group, inner)
        elif isinstance(value, int | float):
            yield inner, "nonsense"
            if ".".join((group, *inner)) not in SIGNED:
                yield inner, -7
        elif isinstance(value, str) and CHOICE.match(comments.get(".".join(inner), "")):
            yield inner, "nonsense"


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_a_value_that_a_key_cannot_have_is_one_line_with_the_key(group, option, tmp_path):
    if option == "pettingzoo":
        pytest.importorskip("mpe2")
    verb = ROOTS.get(group, "train")
    needs = [f"model.path={pretrained(tmp_path)}"] if option == "huggingface" else []
    config = Options(composed(f"{group}={option}", *needs, verb=verb)).plain
    for path, value in refusals(config[group], keys_of(config_folder() / group / f"{option}.yaml"), group):
        wrong = copy.deepcopy(config)
        node = wrong[group]
        for name in path[:-1]:
            node = node[name]
        node[path[-1]] = value
        with pytest.raises(UserError) as caught:
            make(wrong, group, EXPECTED[group])
        text = str(caught.value)
        assert f"{path[-1]}={value}" in text, (path, text)
        assert "\n" not in text


def test_an_option_chooses_in_other_groups_what_it_needs_and_no_more():
    needs = {"algo=ensemble": {"distribution": "logits_allreduce"}, "sampler=activation": {"algo": "forward_gradient"}}
    for task in GROUPS["task"]:
        if option_of("task", task)["_target_"].endswith((".Reinforcement", ".PettingZoo")):
            needs[f"task={task}"] = {"model": "mlp_policy"}
    needs["task=gymnasium"] = {"model": "small_policy", "algo": "openai_es_policy"}
    needs |= {f"task={task}": {"model": "char_gpt"} for task in ("text", "reward", "choices")}
    chosen = {}
    for group, option in OPTIONS:
        file = config_folder() / group / f"{option}.yaml"
        assert "@package" not in file.read_text()  # its keys stay below its group
        chooses = filter(OmegaConf.is_dict, OmegaConf.load(file).get("defaults", []))
        entries = [pair for entry in chooses for pair in entry.items()]
        if entries:
            chosen[f"{group}={option}"] = {str(key).removeprefix("override /").partition("@")[0]: name for key, name in entries}
    assert chosen == needs


def test_an_untuned_environment_has_defaults_of_its_own_where_nothing_is_typed():
    """A typed option, an experiment and a verb that has no algorithm come before those that a task chooses."""
    plain = composed("task=gymnasium")
    length = f"generations={plain['generations']}"  # schedules end with the run
    assert plain["algo"] == composed("algo=openai_es_policy", length)["algo"] != composed(length)["algo"]
    assert (plain["model"]["hidden"], plain["model"]["gain"], plain["task"]["common_episodes"]) == ([], True, False)
    assert (plain["task"]["step_bonus"], plain["task"]["end_penalty"]) == (None, 0.0)  # neither survival nor a fall counts
    assert plain["task"]["bonus_after"] == 100  # but survival of the first steps
    assert composed("task=gymnasium", "algo=snes")["algo"] == composed("algo=snes", length)["algo"]
    tuned = "experiment=half_cheetah_4800"
    assert composed(tuned, "task=gymnasium")["algo"] == composed(tuned)["algo"]
    assert composed("task=gymnasium", verb="evolve")["algo"] == composed(verb="evolve")["algo"]
    for other in GROUPS["task"]:
        if other != "gymnasium":
            assert composed(f"task={other}")["algo"] == composed()["algo"]


def test_a_task_chooses_population_and_generations_where_nothing_is_typed():
    """A typed key, an experiment's and those of the verb ``evolve`` come before a task's; other tasks have the general ones."""

    def length(*typed, verb="train"):
        config = composed(*typed, verb=verb)
        return config["population"], config["generations"]

    untuned = OmegaConf.load(config_folder() / "untuned.yaml")
    assert length("task=gymnasium") == (untuned.population, untuned.generations) != length()
    assert length("task=gymnasium", "population=10") == (10, untuned.generations)
    assert length("generations=7", "task=gymnasium") == (untuned.population, 7)
    tuned = "experiment=half_cheetah_4800"
    assert length(tuned, "task=gymnasium") == length(tuned) != length()
    assert length(tuned, "task=gymnasium", "generations=7") == (length(tuned)[0], 7)
    assert length("task=gymnasium", verb="evolve") == length(verb="evolve")
    for other in GROUPS["task"]:
        if other != "gymnasium":
            assert length(f"task={other}") == length()


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_a_file_and_the_class_of_its_name_agree(group, option):
    """Every key is an argument and every argument without a default a key, so that ``--help`` shows all there is to set."""
    node = option_of(group, option)
    assert node["_target_"].startswith(f"neuro_cli.{group}.")
    for each in nodes(node):
        assert is_ours(each["_target_"], (*OURS, *SEARCH))  # needs no trust
        arguments = inspect.signature(get_object(each["_target_"])).parameters
        assert each.keys() - MARKS <= arguments.keys(), each["_target_"]
        needed = {name for name, argument in arguments.items() if argument.default is argument.empty}
        assert each.get("_partial_") or needed <= each.keys(), each["_target_"]


@pytest.mark.parametrize("group", [group for group, options in GROUPS.items() if group in ("task", "model", "sampler", "algo")])
def test_another_option_is_another_run(group):
    """A checkpoint's identity tells the options of these groups apart."""
    identities = [str(identity_of(composed(f"{group}={option}"))) for option in GROUPS[group]]
    assert len(set(identities)) == len(identities)


@pytest.mark.parametrize("experiment", groups().get("experiment", []))
def test_an_experiment_composes_and_its_parts_can_be_made(experiment, tmp_path):
    overrides = OmegaConf.load(config_folder() / "experiment" / f"{experiment}.yaml").get("defaults", [])
    own = {str(key).split("/")[-1] for entry in overrides for key in entry} & ROOTS.keys()
    needs = [f"model.path={pretrained(tmp_path)}"] if {"huggingface", "language_model"} & {*str(overrides).split("'")} else []
    config = composed(f"experiment={experiment}", *needs, verb=ROOTS[own.pop()] if own else "train")
    RunConfig.of(config)
    if config["task"]["_target_"].endswith((".Reinforcement", ".PettingZoo")):
        pytest.importorskip("gymnasium")
    config = Options(config).plain
    for group, kind in EXPECTED.items():
        if group not in ROOTS:
            with torch.device("meta" if group == "model" and not needs else "cpu"):  # no numbers: some networks have 50 million
                assert isinstance(make(config, group, kind), kind)


def test_bench_composes():
    config = composed(verb="bench")
    RunConfig.of(config)
    assert {"what", "repeats", *GROUPS} - ROOTS.keys() <= config.keys()


@pytest.mark.parametrize("key", ["fields", "reward_options"])
def test_names_are_given_in_braces_or_one_by_one(key):
    given = composed("task=reward", f"task.{key}={{prompt: question, answer: solution}}")
    assert given["task"][key] == {"prompt": "question", "answer": "solution"}
    assert composed("task=reward", f"+task.{key}.prompt=question", f"+task.{key}.answer=solution") == given
