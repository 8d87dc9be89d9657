"""``neuro_cli.train``, ``resume`` and ``evaluate`` do what the commands do, and leave the process of the script as it was."""

import json
import logging
import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf
from support.inside import neuro_inside, one_line, well
from support.shared_world import program_in_world
from support.tables import sha_of
from support.worlds import needs_mpi, own_mpi
from torch import nn

from neuro_cli import load
from neuro_cli.algo.snes import SNES
from neuro_cli.cli.options.tree import BASE
from neuro_cli.cli.overrides.grammar import parse_plain, text_of
from neuro_cli.cli.python_calls import evaluate, resume, train
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.factory.script_objects import Made
from neuro_cli.library.result import Result
from neuro_cli.logger.base import Logger
from neuro_cli.runner.build import make_model
from neuro_cli.sampler.iid import Iid
from neuro_cli.task.digits import Digits

pytestmark = pytest.mark.xdist_group("ranks")

SETTING = ("population=8", "batch_size=16", "threads=1", "evaluate.every=2", "sampler=iid", "algo.sigma=0.1")
SMALL: dict[str, Any] = {
    "population": 8, "batch_size": 16, "threads": 1, "evaluate": {"every": 2}, "sampler": "iid", "algo": {"sigma": 0.1}
}  # fmt: skip
MODEL = {"_target_": "neuro_cli.model.mnist.MNIST_10K"}
PROGRAM = Path(__file__).parents[1] / "support" / "library_program.py"


class Rows(Logger):
    """Logger that stores its calls."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def start(self, run: Path, config: dict[str, Any], resumed_at: int | None) -> None:
        assert config["seed"] == 1
        assert self.evaluated == ("test_accuracy",)

    def log(self, row: dict[str, Any]) -> None:
        self.rows.append(row)

    def finish(self, summary: dict[str, Any]) -> None:
        self.summary = summary


class Stopping(Rows):
    """Sends this process a signal after the second generation."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def log(self, row: dict[str, Any]) -> None:
        super().log(row)
        if row["generation"] == 2:
            os.kill(os.getpid(), self._number)


def state_of_process() -> dict[str, Any]:
    """What a polite function leaves alone."""
    hydra = GlobalHydra.instance().hydra, HydraConfig.instance().cfg, sorted(ConfigStore.instance().repo)
    log = logging.getLogger("neuro_cli")
    numbers = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    return {
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)],
        "threads": (torch.get_num_threads(), threading.active_count()),
        "environment": dict(os.environ),
        "log": (list(log.handlers), log.level, log.propagate, logging.raiseExceptions, list(logging.getLogger().handlers)),
        "hydra": (*hydra, [OmegaConf.has_resolver(name) for name in ("now", "hydra", "groups_help")]),
        "arguments": list(sys.argv),
        "path": list(sys.path),
        "folder": os.getcwd(),
        "numbers": numbers,
        "excepthook": sys.excepthook,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Working directory with a run `command` of five generations by the command line."""
    place = tmp_path_factory.mktemp("library")
    well(neuro_inside("train", *SETTING, "generations=5", "hydra.run.dir=command", cwd=place))
    return place


@pytest.fixture(autouse=True)
def _inside(folder, monkeypatch) -> None:
    monkeypatch.chdir(folder)


@pytest.fixture(scope="module")
def trained(folder) -> tuple[Result, dict[str, Any], dict[str, Any], Logger]:
    """A run `names` of five generations by ``train``, with a handler of the script's, and the process before and after."""
    handler = logging.NullHandler()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        log = logging.getLogger("neuro_cli")
        patch.setattr(log, "handlers", [handler])
        patch.setattr(log, "propagate", True)
        threads = torch.get_num_threads()
        torch.set_num_threads(2)
        before = state_of_process()
        rows = Rows()
        result = train("generations=5", folder="names", logger=rows, **SMALL)
        after = state_of_process()
        torch.set_num_threads(threads)
    return result, before, after, rows


def files(run: str) -> set[str]:
    return {str(path.relative_to(run)) for path in Path(run).rglob("*") if path.is_file()}


def test_a_script_finds_its_process_as_it_left_it(trained):
    _, before, after, _ = trained
    assert before["threads"][0] == 2
    assert after == before


def test_a_logger_of_the_script_hears_of_every_generation(trained):
    result, _, _, rows = trained
    assert [row["generation"] for row in rows.rows] == [1, 2, 3, 4, 5]
    assert rows.summary["parameters_sha256"] == result.summary["parameters_sha256"]


def test_a_run_by_names_is_the_commands_run(trained, folder):
    result = trained[0]
    assert sha_of("names") == sha_of("command")
    assert files("names") == files("command")
    ours, theirs = (OmegaConf.to_container(OmegaConf.load(f"{run}/.hydra/config.yaml")) for run in ("names", "command"))
    assert ours["logger"].pop("_target_").endswith(".Rows")
    assert {**ours, "logger": 0} == {**theirs, "logger": 0}
    assert result.metrics["generation"] == [1, 2, 3, 4, 5]
    for name in ("fitness_mean", "test_accuracy"):
        np.testing.assert_array_equal(result.metrics[name], Result.of("command").metrics[name])
    assert repr(result).startswith("Result('names', generations=5, test_accuracy=0.")
    assert not result.module.training
    assert (
        evaluate("names")
        == evaluate("command", checkpoint=5)
        == pytest.approx({name: result.summary[name] for name in ("test_accuracy", "test_loss")})
    )
    done = neuro_inside("evaluate", "names", cwd=folder)  # a logger plays no part
    assert f"{result.summary['test_accuracy']:.4f}" in done.stdout


def test_objects_give_the_bits_of_names_and_are_asked_for_again(folder, capsys):
    model, sampler = make_model({"seed": 1, "model": MODEL}), Iid(antithetic=False)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    values = SMALL | {"sampler": sampler, "model": model, "task": Digits("negative_cross_entropy", 500)}
    train(folder="objects", generations=5, time_limit=1e-9, **values)  # stops after one
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    capsys.readouterr()
    given = {"model": model, "sampler": sampler, "task": values["task"]}
    result = resume("objects", time_limit=None, **given)
    assert result.metrics["generation"] == [1, 2, 3, 4, 5]
    assert sha_of("objects") == sha_of("command")
    capsys.readouterr()
    assert evaluate("objects", model=model, task=given["task"]) == evaluate("command")
    assert capsys.readouterr() == ("", "")
    assert torch.equal(*(next(load(run, **more).parameters()) for run, more in (
        ("objects", {"model": model, "task": given["task"]}), ("command", {})
    )))  # fmt: skip
    assert not result.module.training
    assert one_line(neuro_inside("resume", "objects", cwd=folder)) == (
        "model, sampler, task: made by a script: neuro_cli.resume('objects', model=..., sampler=..., task=...)"
    )
    line = "model, task: made by a script: neuro_cli.{}('objects', model=..., task=...)"
    assert one_line(neuro_inside("evaluate", "objects", cwd=folder)) == line.format("evaluate")
    with pytest.raises(UserError, match=r"neuro_cli\.load\('objects', "):
        load("objects")
    assert neuro_inside("report", "objects", "html=false", cwd=folder).returncode == 0
    for other, line in (
        ({"sampler": Iid(antithetic=True)}, r"sampler\._settings_\.antithetic=True: the run's checkpoint has .*antithetic=False"),
        ({"model": nn.Linear(2, 2)}, r"model=torch.*Linear: the run was made with a neuro_cli\.model\.mnist\.MNIST_10K"),
        ({"algo": SNES}, r"algo=<class .*SNES'>: must be a name, a dict of keys or a neuro_cli\.algo\.base\.Algorithm"),
        ({"trust": "none", "seed": 2}, r"seed=2: a resumed run keeps it"),
    ):
        with pytest.raises(ConfigError if "sampler" not in other else UserError, match=f"^{line}"):
            resume("objects", **given | other)


@pytest.mark.parametrize(
    ("overrides", "values", "line"),
    [
        ((), {"sead": 3}, r"sead=3: no such key; did you mean seed"),
        ((), {"population": "12"}, r"population=12: must be an integer from 1"),
        ((), {"generations": "many"}, r"generations=many: must be an integer from 1"),
        ((), {"algo": {"optimizer": {"_target_": "torch.optim.SGD", "momentun": 1}}}, r"algo\.optimizer: SGD.*momentun"),
        ((), {"folder": "command"}, r"hydra\.run\.dir=command: already contains a run"),
        ((), {"model": nn.Linear}, r"model=<class .*Linear'>: must be a name, a dict of keys or a torch\.nn\."),
        ((), {"seed": object()}, r"seed=<object .*>: must be a plain value, not a object"),
        (("model.outputs=3",), {"model": nn.Flatten()}, r"model\.outputs=3: the script gives the model as an object"),
        ((), {"model": nn.Flatten(), "algo": "ensemble"}, r"model=an object: an ensemble makes its networks itself"),
        ((), {"model": nn.Flatten(), "ranks": 2}, r"ranks=2: objects are in this process alone"),
        ((), {"model": nn.Linear(64, 10)}, r"model=Linear, task=Digits: the model does not take 1x8x8 examples"),
    ],
)  # fmt: skip
def test_a_wrong_name_or_value_is_the_commands_line(overrides, values, line):
    here, handlers = {path.name for path in Path().iterdir()}, list(logging.getLogger("neuro_cli").handlers)
    with pytest.raises(UserError, match=f"^{line}") as caught:
        train(*overrides, **{"folder": "refused", "generations": 1} | values)
    assert isinstance(caught.value, ValueError) or "Linear" in line or "SGD" in line
    assert "\n" not in str(caught.value)
    assert {path.name for path in Path().iterdir()} == here
    assert logging.getLogger("neuro_cli").handlers == handlers


@pytest.mark.parametrize("text", ["-m", "--help", "seed=1,2", "seed"])
def test_flags_and_sweeps_are_refused(text):
    with pytest.raises(UserError, match=rf"^{text}: "):
        train(text, folder="refused")
    assert not Path("refused").exists()


def test_a_signal_stops_with_a_checkpoint_and_reaches_the_script():
    with pytest.raises(KeyboardInterrupt, match=r"^stopped with a checkpoint; neuro_cli.resume\('stopped'\) continues$"):
        train(folder="stopped", generations=5, logger=Stopping(signal.SIGINT), **SMALL)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    stopped = Result.of("stopped")
    assert stopped.metrics["generation"] == [1, 2]
    assert stopped.summary["generations"] == 2
    resume("stopped", logger=Rows())
    assert sha_of("stopped") == sha_of("command")
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(Result.of("ended").metrics["generation"][-1]))
    try:
        assert train(folder="ended", generations=5, logger=Stopping(signal.SIGTERM), **SMALL).summary["generations"] == 2
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [2]


def test_a_result_shows_itself_in_a_notebook(monkeypatch):
    result = train(folder="shown", generations=2, **SMALL)
    (Path("shown") / "curves.png").write_bytes(b"picture")
    page = result._repr_html_()
    assert "<th>generations</th><td>2</td>" in page
    assert 'src="data:image/png;base64,cGljdHVyZQ=="' in page
    axes = result.plot().axes
    assert [list(line.get_xdata()) for line in axes[0].lines] == [[1, 2], [1, 2]]
    assert [list(line.get_xdata()) for line in axes[1].lines] == [[2]]  # test accuracy
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match=r"^frame: pandas is not installed: "):
        result.frame()


def test_code_that_leaves_the_process_is_an_error_here():
    class Leaving(nn.Flatten):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            sys.exit(0)

    with pytest.raises(RuntimeError, match="the code of a model or a task ended the process"):
        train(folder="left", model=nn.Sequential(Leaving(), nn.Linear(64, 10)), generations=1, **SMALL)
    assert not Path("left").exists()


def test_a_folder_at_work_is_refused(folder):
    from neuro_cli.launch import lock

    started = threading.Event()

    class Waiting(Rows):
        def log(self, row: dict[str, Any]) -> None:
            started.set()
            while not Path("refusal seen").exists():
                time.sleep(0.01)

    other = threading.Thread(target=lambda: train(folder="busy", generations=1, logger=Waiting(), **SMALL))
    other.start()
    try:
        assert started.wait(240)
        with pytest.raises(UserError, match=r"busy: already contains a run"):
            train(folder="busy", **SMALL)
        assert lock._held
    finally:
        Path("refusal seen").touch()
        other.join()
    assert not lock._held
    assert Result.of("busy").metrics["generation"] == [1]  # outside the main thread, where there are no signals


def test_a_script_that_is_hydras_own_trains_inside(folder, monkeypatch):
    """As in a user's ``@hydra.main``: a Hydra and a config of another application exist, and stay."""
    from hydra import compose, initialize_config_dir

    (folder / "theirs").mkdir()
    (folder / "theirs" / "app.yaml").write_text("mine: 1\n")
    with initialize_config_dir(str(folder / "theirs"), **BASE):
        config = compose("app", return_hydra_config=True)
        HydraConfig.instance().set_config(config)
        before = state_of_process()
        with suppress(ConfigError):
            train(sead=3)
        result = train(folder="in-hydra", generations=1, **SMALL)
        assert state_of_process()["hydra"] == before["hydra"]
        assert compose("app").mine == 1
        HydraConfig.instance().cfg = None
    assert result.summary["generations"] == 1


@pytest.mark.parametrize(
    "value",
    [None, True, 3, -2.5, 1e-9, "a", "1e3", "true", "null", "", "it's \\ odd, {[=]}", [1, "b c", None], {"a": {"b": [1.5]}}],
)  # fmt: skip
def test_a_value_is_read_back_from_its_text(value):
    assert parse_plain(f"key={text_of('key', value)}") == ("key", value)


def test_an_object_that_cannot_be_copied_is_refused():
    sampler = Iid(antithetic=False)
    sampler.lock = threading.Lock()
    with pytest.raises(ConfigError, match=r"^sampler=.*Iid: it cannot be copied: cannot pickle"):
        Made("sampler", sampler).object()


@needs_mpi
def test_every_rank_of_a_world_calls_it_alike(folder):
    """Names and objects on 3 and 2 ranks, and refusals that all ranks raise."""
    program_in_world(PROGRAM, str(folder), cwd=folder, ranks=3, mpi=own_mpi())
    seen = [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(3)]
    assert seen[0] == seen[1] == seen[2] | {name: seen[0][name] for name in seen[0].keys() - seen[2].keys()}
    setting = {"population": 8, "batch_size": 16, "threads": 1, "generations": 3}
    assert seen[0]["names-3"] == train(folder="names-1", **setting).summary["parameters_sha256"]
    assert seen[0]["object-3"] == seen[0]["object-2"]
    assert seen[0]["test of object-3"] == seen[0]["test of object-2"]
    assert Path(seen[0]["default folder"]).parent == Path("outputs/train")
    assert seen[0]["wrong name"] == ["UserError", "rank 1: overrides: all ranks of a world must give the same as rank 0"]
    assert seen[0]["wrong on all"] == ["ConfigError", "sead=1: no such key; did you mean seed or threads?"]
    assert seen[0]["another seed"][1].startswith("rank 1: overrides: all ranks")
    assert seen[0]["another model"][1].endswith("its weights included: call torch.manual_seed before it is made")
    assert seen[0]["other ranks"] == ["ConfigError", "ranks=2: the launcher started 3; leave it null there"]
    assert seen[0]["twice"][1].startswith("hydra.run.dir=")
    assert seen[0]["object-2 without"][1].startswith("model: made by a script: neuro_cli.resume(")
