"""A saved config names classes. Others than ours and torch's run only where the user says so."""

import json
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from support.configs import composed

from neuro_cli.cli.options.groups import groups
from neuro_cli.core.errors import UserError
from neuro_cli.factory.construct import ConstructionError, construct, located
from neuro_cli.factory.instantiate import is_ours, make
from neuro_cli.factory.trust import refuse_foreign, refuse_untrusted
from neuro_cli.runner.load import read_config
from neuro_cli.search.command import OURS


def run_with(folder: Path, model: dict, **groups: dict) -> Path:
    (folder / ".hydra").mkdir(parents=True)
    OmegaConf.save(OmegaConf.create(composed() | {"model": model} | groups), folder / ".hydra" / "config.yaml")
    return folder


@pytest.mark.parametrize(
    "target",
    [
        "neuro_cli.model.mnist.MNIST_10K",
        "neuro_cli.core.schedule.Schedule",
        "torch.nn.Linear",
        "torch.nn.modules.conv.Conv2d",
        "torch.optim.AdamW",
        "torchvision.models.resnet18",
        "torchvision.models.ResNet",
        "neuro_cli.model.mnist.NotThere",  # making it says so
    ],
)
def test_ours_and_torchs_classes_need_no_trust(target, tmp_path):
    assert is_ours(target)
    run = run_with(tmp_path, {"_target_": target})
    assert read_config(run, [])["model"]["_target_"] == target


@pytest.mark.parametrize(
    "target",
    [
        "os.system",
        "my_nets.Net",
        "neuro_clip.model.Net",
        "torch.hub.load",
        "torch.nn.functional.torch.hub.load",  # dots lead from any module to any
        "neuro_cli.logger.csv.os.system",
        "neuro_cli.task.mnist.torchvision.datasets.MNIST",
        "torch.nn.init.constant_",  # a function
        "torch.nn.Module.load_state_dict",
        "neuro_cli.bench.stopwatch.timed",  # starts a process
        "neuro_cli.run_folder.checkpoint.write_atomically",
        "neuro_cli.task",  # a module
        "torchvision.models.get_model",  # makes what its argument names
        "torchvision.models.feature_extraction.create_feature_extractor",
    ],
)
def test_anything_else_needs_it(target, tmp_path):
    assert not is_ours(target)
    run, package = run_with(tmp_path, {"_target_": target}), target.split(".")[0]
    with pytest.raises(UserError) as caught:
        read_config(run, ["another"])
    text = f"model._target_={target}: it runs code of {package}; pass trust={package} if this run folder is yours"
    assert str(caught.value) == text
    assert read_config(run, ["another", package])["model"]["_target_"] == target
    assert read_config(run, None)["model"]["_target_"] == target


ENVIRONMENTS = "neuro_cli.task.reinforcement.Reinforcement"


@pytest.mark.parametrize(
    ("trust", "by_user", "said"),
    [
        (
            [],
            "",
            "model._target_=nets.Net: it runs code of nets, and other keys that of walls, lights; pass trust=[nets,walls,lights]",
        ),
        (
            ["nets"],
            "",
            "task.wrappers.0=walls.W: it runs code of walls, and other keys that of lights; pass trust=[nets,walls,lights]",
        ),
        (["walls", "nets"], "", "task.wrappers.1=lights.L: it runs code of lights; pass trust=[nets,walls,lights]"),
        (["walls"], "nets", "task.wrappers.1=lights.L: it runs code of lights; pass trust=[walls,lights]"),
        ([], "nets,walls", "task.wrappers.1=lights.L: it runs code of lights; pass trust=lights"),
    ],
)
def test_one_refusal_names_all_that_a_config_needs(trust, by_user, said, tmp_path, monkeypatch):
    monkeypatch.setenv("NEURO_TRUST", by_user)
    wrappers = ["walls.W", "lights.L", {"_target_": "walls.V"}]
    task = {"_target_": ENVIRONMENTS, "id": "CartPole-v1", "wrappers": wrappers}
    run = run_with(tmp_path, {"_target_": "nets.Net"}, task=task)
    with pytest.raises(UserError) as caught:
        read_config(run, trust)
    assert str(caught.value) == f"{said} if this run folder is yours"
    assert read_config(run, [*trust, *said.rpartition("trust=")[2].strip("[]").split(",")])["task"] == task


HIDDEN = {"_target_": "os.system", "command": "touch hidden"}


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"layers": [1, HIDDEN]}, "model.layers.1"),
        ({"_args_": [[HIDDEN]]}, "model._args_.0.0"),
        ({"layers": {"first": [{"inner": HIDDEN}]}}, "model.layers.first.0.inner"),
    ],
)
def test_no_depth_hides_a_target(arguments, key, tmp_path):
    run = run_with(tmp_path, {"_target_": "torch.nn.Sequential", **arguments})
    with pytest.raises(UserError, match=rf"^{key}\._target_=os\.system: it runs code of os; pass trust=os"):
        read_config(run, [])


def test_an_escaped_interpolation_hides_no_target(tmp_path):
    """What is escaped once in the file is an interpolation after the first resolution, and would be resolved by the second."""
    run = run_with(
        tmp_path, {"_target_": "torch.nn.Sequential", "_args_": [r"\${oc.create:{_target_: os.system, command: true}}"]}
    )
    with pytest.raises(UserError, match=r"config\.yaml: model\._args_\.0=.*: an interpolation is not resolved here$"):
        read_config(run, [])


@pytest.mark.parametrize(
    ("task", "key", "package"),
    [
        ({"id": "dl.run1.payload:X-v0"}, "task.id", "dl"),
        ({"id": "payload:X-v0"}, "task.id", "payload"),
        ({"id": " payload:X-v0"}, "task.id", " payload"),
        ({"_args_": ["payload:X-v0"]}, "task.id", "payload"),
        ({"id": "A-v0", "options": {"env_id": "payload:X-v0"}}, "task.options.env_id", "payload"),
        ({"id": "A-v0", "options": {"inner": [{"entry_point": "payload.sub:X"}]}}, "task.options.inner.0.entry_point", "payload"),
        ({"id": "A-v0", "options": {"vehicle": "payload.vehicle.Car"}}, "task.options.vehicle", "payload"),
        ({"_args_": ["A-v0", 1, True, None, True, 5.0, 16, 100, False, {"a": "payload:X"}]}, "task.options.a", "payload"),
    ],
)
def test_what_gymnasium_imports_needs_it_too(task, key, package, tmp_path):
    run = run_with(tmp_path, composed()["model"], task={"_target_": ENVIRONMENTS, **task})
    with pytest.raises(
        UserError, match=rf"^{key}=.*: it runs code of {package}; pass trust={package} if this run folder is yours$"
    ):
        read_config(run, ["another"])
    assert read_config(run, [package])["task"]["_target_"] == ENVIRONMENTS
    with pytest.raises(UserError, match=rf"^{key}=.*: candidates are made of classes of neuro and torch only$"):
        refuse_foreign(read_config(run, None), "candidates")


REWARD, DATA = "neuro_cli.task.language.reward.Reward", {"train": 1, "test": 1}
DATASET = "neuro_cli.task.dataset.Dataset"


@pytest.mark.parametrize(
    ("task", "key", "package"),
    [
        ({"_target_": REWARD, "reward": "payload.score"}, "task.reward", "payload"),
        ({"_target_": REWARD, "reward": "payload.xml"}, "task.reward", "payload"),
        ({"_target_": REWARD, "reward": "program", "reward_options": {"command": ["true"]}}, "task.reward", "program"),
        ({"_target_": DATASET, **DATA, "metrics": "payload.f1"}, "task.metrics", "payload"),
        ({"_target_": DATASET, **DATA, "metrics": {"f1": "payload.xml"}}, "task.metrics.f1", "payload"),
        ({"_target_": DATASET, **DATA, "loss": "payload.loss"}, "task.loss", "payload"),
        ({"_target_": ENVIRONMENTS, "id": "CartPole-v1", "wrappers": ["payload.W"]}, "task.wrappers.0", "payload"),
        ({"_target_": DATASET, "_args_": [1, 1, "accuracy", 5, None, None, "payload:f1"]}, "task.metrics", "payload"),
    ],
)
def test_functions_and_programs_that_a_task_calls_need_it_too(task, key, package, tmp_path):
    run = run_with(tmp_path, composed()["model"], task=task)
    with pytest.raises(UserError, match=rf"^{key}=.*: it runs code of {package}; pass trust={package} if this run folder is"):
        read_config(run, ["another"])
    assert read_config(run, [package])["task"] == task


@pytest.mark.parametrize(
    "task",
    [
        {"id": "LunarLander-v3", "options": {"continuous": True, "wind_power": 15.0, "render_mode": "rgb_array"}},
        {"id": "Ant-v5", "options": {"xml_file": "my.ant.xml"}},
        {"id": "ALE/Pong-v5", "options": {"address": "https://example.org/a:b"}},
    ],
)
def test_other_texts_of_an_environment_need_none(task, tmp_path):
    run = run_with(tmp_path, composed()["model"], task={"_target_": ENVIRONMENTS, **task})
    assert read_config(run, [])["task"]["id"] == task["id"]


@pytest.mark.parametrize(
    "more", [{"weights": "DEFAULT"}, {"weights_backbone": "DEFAULT"}, {"pretrained": True}, {"_args_": ["DEFAULT"]}]
)
def test_weights_that_torchvision_fetches_and_unpickles_need_it(more, tmp_path):
    run = run_with(tmp_path, {"_target_": "torchvision.models.resnet18", **more})
    with pytest.raises(UserError, match="it runs code of torchvision; pass trust=torchvision"):
        read_config(run, [])
    assert read_config(run, ["torchvision"])["model"]


def test_a_saved_search_makes_its_strategies_and_pools_only():
    for group in ("strategy", "pool"):
        for option in groups()[group]:
            refuse_untrusted({group: {"_target_": composed(f"{group}={option}", verb="search")[group]["_target_"]}}, [], OURS)
    others = (
        "neuro_cli.broker.worker.process.TaskProcess",
        "neuro_cli.broker.local_cluster.Cluster",
        "neuro_cli.search.session.search",
    )
    for target in others:
        with pytest.raises(UserError, match=rf"^pool\._target_={target}: it runs code of neuro_cli"):
            refuse_untrusted({"pool": {"_target_": target}}, [], OURS)


@pytest.mark.parametrize("target", [["os.system"], {"a": 1}, 3, None])
def test_a_target_is_a_name(target, tmp_path):
    with pytest.raises(UserError, match=r"^model\._target_=.*: must be the name of a class$"):
        read_config(run_with(tmp_path, {"_target_": target}), ["os", "None"])


@pytest.mark.parametrize("content", ["{", "\x00\x01", "- a\n- b", "a: ${b", "a: ${nope}", json.dumps({"seed": 1})])
def test_a_config_that_is_none_of_a_run_is_one_line(content, tmp_path):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "config.yaml").write_text(content)
    with pytest.raises(
        UserError, match=r": (not a readable config: |not a neuro training run|a=\$\{nope\}: an interpolation is not resolved)"
    ) as caught:
        read_config(tmp_path, [])
    assert str(caught.value).startswith(str(tmp_path))
    assert "\n" not in str(caught.value)


MADE = {"_made_by_": "script", "_settings_": {}}


def test_what_a_script_made_is_made_of_no_config(tmp_path):
    """Nothing runs a class that the mark keeps from the check of trust, and below a target the mark keeps nothing from it."""
    run = run_with(tmp_path, {"_target_": "os.system", **MADE})
    with pytest.raises(UserError, match=r"^model: made by a script: neuro_cli\.resume\('.*', model=\.\.\.\)$"):
        read_config(run, [])
    config = read_config(run, [], groups=["task"])
    with pytest.raises(UserError, match=r"^model: made by a script: "):
        make(config, "model", object)
    with pytest.raises(UserError, match=r"^model=.*Call: the run was made with a os\.system; resume keeps it$"):
        read_config(run, [], {"model": type("Call", (), {})()})
    run = run_with(tmp_path / "inner", {"_target_": "torch.nn.Sequential", "_args_": [{"_target_": "os.system", **MADE}]})
    with pytest.raises(UserError, match=r"^model\._args_\.0\._target_=os\.system: it runs code of os; pass trust=os"):
        read_config(run, [])


def test_the_users_environment_trusts_too(tmp_path, monkeypatch):
    run = run_with(tmp_path, {"_target_": "my_nets.Net"})
    monkeypatch.setenv("NEURO_TRUST", "another, my_nets")
    assert read_config(run, [])["model"]["_target_"] == "my_nets.Net"


@pytest.mark.parametrize(
    ("target", "arguments"),
    [
        ("os.system", ["touch made"]),
        ("torch.os.system", ["touch made"]),
        ("subprocess.Popen", [["touch", "made"]]),
        ("builtins.open", ["made", "w"]),
        ("shutil.os.mkdir", ["made"]),
        ("functools.partial", [{"_target_": "os.system", "_partial_": True}]),
        ("torch.sys.exit", [1]),
    ],
)
def test_no_config_calls_a_function_of_pythons_own_modules(target, arguments, tmp_path, monkeypatch):
    """Not even one that the user has typed, nor one of a library in its place, as wandb puts one for sys.exit."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.exit", torch.zeros)
    with pytest.raises(ConstructionError) as caught:
        construct({"_target_": target, "_args_": arguments})
    assert "of Python's own modules" in str(caught.value.__cause__)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["collections.OrderedDict", "datetime.timedelta", "pathlib.Path", "builtins.dict"])
def test_a_config_makes_plain_values(target):
    assert isinstance(construct({"_target_": target}), located(target))
