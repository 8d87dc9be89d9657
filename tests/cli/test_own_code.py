"""What lies in the current folder is imported where the user says so, and never in place of what is installed."""

import json
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from support.inside import neuro_inside, one_line, well
from support.worlds import clean_environment, needs_mpi, neuro

import neuro_cli
from neuro_cli import load
from neuro_cli.core.errors import UserError

SMALL = ("population=8", "batch_size=16", "threads=1", "generations=2")
TRACE = "ran.txt"  # what foreign code leaves in the current folder
EVIL = f"open({TRACE!r}, 'a').write(__name__ + '\\n')\n"
NET = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
"""
ENVIRONMENT = """
import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
gymnasium.register("Mine-v0", CartPoleEnv, max_episode_steps=20)
"""
# packages that neuro imports while it works, some of them not before a run ends
SHADOWED = ("matplotlib", "numba", "hydra_plugins", "scipy", "sklearn", "PIL", "rich", "tensorboard", "mpi4py")


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A folder with a run of two generations, `plain`."""
    folder = tmp_path_factory.mktemp("runs")
    well(neuro_inside("train", *SMALL, "hydra.run.dir=plain", cwd=folder))
    return folder


def plant(folder: Path) -> None:
    """Packages of the names of installed ones."""
    for name in SHADOWED:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(EVIL)
        (folder / name / "evil.py").write_text(EVIL)


def crafted(run: Path, group: str, node: dict[str, object]) -> None:
    """Change a group of a run's config, and the identity in its checkpoints, whose sum is made again."""
    path, state = run / ".hydra" / "config.yaml", run / "checkpoints" / "state.json"
    config = OmegaConf.load(path)
    old = [f"{group}.{key}" for key in config[group]]
    config[group] = node
    OmegaConf.save(config, path)
    content = json.loads(state.read_text())
    for entry in content["entries"]:
        identity = entry["scalars"]["identity"]
        for key in old:
            identity.pop(key, None)
        identity |= {f"{group}.{key}": value for key, value in node.items()}
    text = json.dumps([content["format"], content["entries"]], sort_keys=True, separators=(",", ":"))
    state.write_text(json.dumps(content | {"sha256": sha256(text.encode()).hexdigest()}))


@pytest.mark.parametrize("verb", ["resume", "evaluate", "export", "predict", "report", "evolve export", "load"])
def test_a_runs_environment_does_not_import_what_lies_beside_it(verb, runs, tmp_path):
    """D4: the id of an environment names the module payload, relative to the current folder."""
    run = shutil.copytree(runs / "plain", tmp_path / "run")
    crafted(run, "task", {"_target_": "neuro_cli.task.reinforcement.Reinforcement", "id": "run.payload:X-v0"})
    (run / "payload.py").write_text(EVIL)
    if verb == "load":
        with pytest.raises(UserError, match=r"^task\.id=run\.payload:X-v0: it runs code of run; pass trust=run"):
            load(run)
    elif verb == "report":
        assert neuro_inside("report", "run", cwd=tmp_path).returncode == 0
    else:
        (tmp_path / "image.png").touch()
        more = ["image.png"] if verb == "predict" else []
        said = one_line(neuro_inside(*verb.split(), "run", *more, cwd=tmp_path))
        assert said == "task.id=run.payload:X-v0: it runs code of run; pass trust=run if this run folder is yours"
    assert not (tmp_path / TRACE).exists()


def test_a_user_types_or_trusts_an_environment_of_their_own(tmp_path):
    pytest.importorskip("gymnasium")
    (tmp_path / "my_world.py").write_text(ENVIRONMENT)
    setting = (
        "task=lunar_lander",
        "task.id=my_world:Mine-v0",
        "task.evaluation_episodes=1",
        "model=mlp_policy",
        "model.hidden=[]",
    )
    well(neuro_inside("train", *setting, *SMALL, "hydra.run.dir=run", cwd=tmp_path))
    assert "pass trust=my_world" in one_line(neuro_inside("evaluate", "run", cwd=tmp_path))
    sys.modules.pop("my_world")
    well(neuro_inside("evaluate", "run", "trust=my_world", cwd=tmp_path))


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(("resume", ".", "generations=3"), marks=pytest.mark.slow),  # imports what evaluate and train import
        pytest.param(("evaluate", "."), marks=pytest.mark.slow),
        pytest.param(("report", "."), marks=pytest.mark.slow),
        ("train", *SMALL, "hydra.run.dir=new", "model._target_=net.Net"),  # the folder is on the path, after what is installed
    ],
)
def test_the_current_folder_stands_in_for_no_installed_package(verb, runs, tmp_path):
    """D5, as a process: what this one has imported already would not be imported again."""
    run = shutil.copytree(runs / "plain", tmp_path / "run")
    plant(run)
    (run / "net.py").write_text(NET)
    well(neuro(*verb, cwd=run, fresh=True))
    assert not (run / TRACE).exists()


def test_a_saved_run_finds_nothing_in_the_current_folder(runs, tmp_path):
    """Neither what is not installed: the optional packages that libraries try."""
    run = shutil.copytree(runs / "plain", tmp_path / "run")
    for name in ("wandb", "my_net", "no_such_package"):
        (run / f"{name}.py").write_text(EVIL + NET)
    crafted(run, "model", {"_target_": "my_net.Net"})
    assert "pass trust=my_net" in one_line(neuro_inside("evaluate", ".", cwd=run))
    one_line(neuro_inside("evaluate", ".", "trust=another", cwd=run))
    assert not (run / TRACE).exists()
    one_line(neuro_inside("evaluate", ".", "trust=my_net", cwd=run))  # imported, and of another size than the checkpoint
    assert (run / TRACE).read_text().split() == ["my_net"]


@needs_mpi
@pytest.mark.slow  # by default tests/cli/test_cli.py on one rank, tests/runner/test_ensemble_runs.py on ranks
def test_a_users_package_in_the_current_folder_trains(tmp_path):
    """The README's `neuro train model._target_=my_package.Net`, and resumed on ranks where it is trusted."""
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").write_text("from my_helper import NUMBER\n" + NET)
    (tmp_path / "my_helper.py").write_text("NUMBER = 1\n")
    well(neuro_inside("train", *SMALL, "model._target_=my_package.Net", "hydra.run.dir=run", cwd=tmp_path))
    ranks = ("ranks=2", "distribution=replicated")
    well(neuro("resume", "run", "generations=3", "trust=my_package", *ranks, cwd=tmp_path))
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["ranks"] == 2


@pytest.mark.parametrize("key", ["population", "sampler", "threads", "checkpoint"])
def test_a_config_without_a_key_is_named(key, runs, tmp_path):
    """Cut or edited, it was a KeyError without a file."""
    run = shutil.copytree(runs / "plain", tmp_path / "run")
    config = OmegaConf.load(run / ".hydra" / "config.yaml")
    del config[key]
    OmegaConf.save(config, run / ".hydra" / "config.yaml")
    for verb in (("evaluate",), ("export",), ("resume",)) if key != "checkpoint" else (("resume",),):
        said = one_line(neuro_inside(*verb, "run", cwd=tmp_path))
        assert said == f"run/.hydra/config.yaml: it has no {key}: it was cut, or edited"


# files that libraries read in the current folder when they are loaded, and by which name a user trusts the library
SETTINGS = {
    ".numba_config.yaml": ("numba", "cache_dir: kept\n"),
    "ucx.conf": ("ucx", "UCX_LOG_LEVEL=warn\n"),
    "libcuda.so.1": ("cuda", ""),
    "tls/x86_64/libcuda.so.1": ("cuda", ""),
    "glibc-hwcaps/x86-64-v3/libcuda.so.1": ("cuda", ""),
}


@pytest.mark.parametrize("file", SETTINGS)
def test_libraries_take_no_settings_from_the_current_folder(file, runs, tmp_path, monkeypatch):
    run, (library, content) = shutil.copytree(runs / "plain", tmp_path / "run"), SETTINGS[file]
    (run / file).parent.mkdir(parents=True, exist_ok=True)
    (run / file).write_text(content)
    for verb in (("evaluate", "."), ("resume", ".", "generations=3"), ("train", *SMALL, "hydra.run.dir=new"), ("doctor",)):
        said = one_line(neuro_inside(*verb, cwd=run, NEURO_TRUST="other"))
        assert said.startswith(f"{file}: {library} would take "), said
        assert said.endswith(f"set NEURO_TRUST={library}")
    assert not (run / "new").exists()
    assert not (run / "kept").exists()
    assert neuro_inside("evaluate", ".", cwd=run, NEURO_TRUST=library).returncode == 0  # a user's own
    monkeypatch.chdir(run)
    with pytest.raises(UserError, match="from the current folder"):
        load(".")


# what commands look for in the current folder: files of a run, what is refused above, what is read and has no say
LOOKED_FOR = re.compile(
    r"(?:\./)?(\.|\.hydra(/.*)?|\.lock|checkpoints(/.*)?|log\.txt|metrics\.csv|curves\.png|stop|(model\.safetensors|summary\.json)(\.\d+\.tmp(\.folder(/.*)?)?)?"
    r"|sweep\.json|multirun\.yaml|report\.html|best|weights|peers|mlflow|comet|tls|x86_64|aarch64|haswell|avx512_1|xeon_phi|glibc-hwcaps"
    r"|([\w-]+/)*libcuda\.so\.1|ucx\.conf|\.numba_config\.yaml|matplotlibrc|_classes\.py|_ops\.py)"
)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")
def test_nothing_else_is_looked_for_in_the_current_folder(runs, tmp_path):
    """By what the system is asked for: libraries of C and C++ have their own ways to open a file."""
    run, calls = shutil.copytree(runs / "plain", tmp_path / "run"), tmp_path / "calls"
    trace = ["strace", "-f", "-qq", "-e", "trace=open,openat,openat2,stat,newfstatat,access,readlink,statx", "-o", str(calls)]
    for verb in (["resume", ".", "generations=400"], ["evaluate", "."], ["doctor"]):
        command = [*trace, sys.executable, "-P", "-m", "neuro_cli", *verb]
        subprocess.run(command, cwd=run, env=clean_environment() | {"NEURO_CURVES": "1"}, check=True, capture_output=True)
        names = re.findall(r'\w+\((?:AT_FDCWD, )?"([^"]+)"', calls.read_text(errors="replace"))
        own = {name.removeprefix(f"{run}/") for name in names if not name.startswith("/") or name.startswith(f"{run}/")}
        checkout = Path(neuro_cli.__file__).parents[1]  # whose revision git is asked for, in that folder
        other = {name for name in own if not LOOKED_FOR.fullmatch(name) and not (checkout / name).exists()}
        assert other <= {"outputs", *(name for name in other if name.startswith("data/"))}, verb


BENCH = ("population=4", "batch_size=8", "repeats=1", "threads=1", "correlation.populations=[4]")


@pytest.mark.slow  # in a process of its own; by default tests/bench/test_bench.py takes a user's network to bench correlation
def test_bench_finds_the_users_package(tmp_path):
    (tmp_path / "my_net.py").write_text(NET)
    well(neuro_inside("bench", "correlation", *BENCH, "model._target_=my_net.Net", cwd=tmp_path))
