"""Loggers of Lightning: the real MLflow where it is installed; of both services what a line says without them."""

import logging
import os
import sys
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.messages import install
from neuro_cli.logger.lightning import SERVICES, LightningLogger
from neuro_cli.logger.several import Guarded


class Recorder:
    """Stands for a class of Lightning; ``fails``: the call that raises."""

    made: ClassVar = list["Recorder"]()

    def __init__(self, fails: str = "", **settings: Any) -> None:
        self.settings, self.fails, self.calls = settings, fails, list[Any]()
        self.run_id = self.version = settings.get("run_id") or settings.get("experiment_key") or f"id-{len(Recorder.made)}"
        self.experiment = types.SimpleNamespace(get_metric_history=self._history)
        Recorder.made.append(self)

    def _history(self, run_id: str, metric: str) -> list[Any]:
        """Return the points of all loggers of the run, as MLflow's client does."""
        calls = [call for made in Recorder.made if made.run_id == run_id for call in made.calls if call[0] == "metrics"]
        return [types.SimpleNamespace(step=step) for _, metrics, step in calls if metric in metrics]

    def _note(self, name: str, *given: Any) -> None:
        if name == self.fails:
            raise RuntimeError("the server\nis gone")
        self.calls.append((name, *given))

    def log_hyperparams(self, config: dict[str, Any]) -> None:
        self._note("hyperparams", config)

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self._note("metrics", metrics, step)

    def finalize(self, status: str) -> None:
        self._note("finalize", status)


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    loggers = types.ModuleType("lightning.pytorch.loggers")
    for service in SERVICES.values():
        setattr(loggers, service.class_name, Recorder)
    monkeypatch.setitem(sys.modules, "lightning.pytorch.loggers", loggers)
    monkeypatch.setattr(install, "find_spec", lambda name: object())
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    Recorder.made = []


def play(run: Path, **settings: Any) -> None:
    logger = Guarded(LightningLogger("mlflow", settings))
    logger.start(run, {"algo": {"sigma": 0.1}}, None)
    for generation in (1, 2):
        logger.log({"generation": generation, "fitness_mean": 0.5, "test_accuracy": None})
    logger.finish({"generations": 2, "test_accuracy": 0.75, "device": "cpu"})


def test_the_service_gets_config_metrics_and_summary(stand_ins: None, tmp_path: Path) -> None:
    play(tmp_path, experiment_name="tries", run_name=None)
    (made,) = Recorder.made
    assert made.settings == {"experiment_name": "tries", "tracking_uri": f"sqlite:///{tmp_path}/mlflow/runs.db"}
    assert made.calls == [
        ("hyperparams", {"algo": {"sigma": 0.1}}),
        ("metrics", {"train/fitness_mean": 0.5}, 1),
        ("metrics", {"train/fitness_mean": 0.5}, 2),
        ("metrics", {"summary/generations": 2.0, "summary/test_accuracy": 0.75}, 2),
        ("finalize", "success"),
    ]


def test_a_server_that_is_named_is_taken(stand_ins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(tmp_path, tracking_uri="http://127.0.0.1:5000")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5001")
    play(tmp_path)
    assert [made.settings for made in Recorder.made] == [{"tracking_uri": "http://127.0.0.1:5000"}, {}]
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.json"]
    assert "127.0.0.1" not in (tmp_path / "mlflow.json").read_text(), "an address may have a password"


@pytest.mark.parametrize("service", SERVICES)
def test_a_run_that_goes_on_is_one_run(service: str, stand_ins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed run stayed open for ever, and its resume was a second one."""
    argument, server = SERVICES[service].argument, SERVICES[service].server
    monkeypatch.delenv(server, raising=False)
    for resumed_at in (None, 20, 30):
        LightningLogger(service).start(tmp_path, {"generations": 40}, resumed_at)
    assert [made.settings.get(argument) for made in Recorder.made] == [None, "id-0", "id-0"]
    assert [len(made.calls) for made in Recorder.made] == [1, 0, 0], "MLflow takes a config once"
    monkeypatch.setenv(server, "http://127.0.0.1:5001")
    LightningLogger(service).start(tmp_path, {}, 30)
    assert argument not in Recorder.made[-1].settings, "another server has no such run"
    for content in ("", "[]", '{"id": "../x", "server": ""}', '{"id": 3}'):
        (tmp_path / f"{service}.json").write_text(content)
        LightningLogger(service).start(tmp_path, {}, 30)
        assert argument not in Recorder.made[-1].settings


def test_the_next_run_of_a_sweep_goes_to_its_own_folder(stand_ins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow 3 puts the address of a run into the environment: the next one in the process was recorded there too."""

    class Sets(Recorder):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            os.environ["MLFLOW_TRACKING_URI"] = settings["tracking_uri"]

    monkeypatch.setattr(sys.modules["lightning.pytorch.loggers"], "MLFlowLogger", Sets)
    for name, resumed_at in (("a", None), ("b", None), ("a", 3)):
        (tmp_path / name).mkdir(exist_ok=True)
        LightningLogger("mlflow").start(tmp_path / name, {}, resumed_at)
    places = [made.settings["tracking_uri"] for made in Recorder.made]
    assert places == [f"sqlite:///{tmp_path}/{name}/mlflow/runs.db" for name in "aba"]
    assert Recorder.made[-1].run_id == "id-0"


def test_a_run_that_is_gone_there_begins_anew(stand_ins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    def made(**settings: Any) -> Recorder:
        if "run_id" in settings:
            raise RuntimeError("no such run")
        return Recorder(**settings)

    for resumed_at in (None, 20):
        LightningLogger("mlflow").start(tmp_path, {"seed": 1}, resumed_at)
        monkeypatch.setattr(sys.modules["lightning.pytorch.loggers"], "MLFlowLogger", made)
    assert [made.run_id for made in Recorder.made] == ["id-0", "id-1"]
    assert Recorder.made[1].calls == [("hyperparams", {"seed": 1})]
    assert "mlflow: cannot continue its run id-0 (RuntimeError: no such run): a new one begins" in caplog.text


@pytest.mark.parametrize("fails", ["hyperparams", "metrics", "finalize"])
def test_what_fails_is_told_once_and_ends_nothing(
    stand_ins: None, tmp_path: Path, caplog: pytest.LogCaptureFixture, fails: str
) -> None:
    play(tmp_path, fails=fails)
    (record,) = [record for record in caplog.records if record.name.startswith("neuro_cli.")]
    assert "(RuntimeError: the server is gone): nothing more is sent there, the run continues" in record.getMessage()
    assert record.levelno == logging.WARNING
    assert fails == "finalize" or Recorder.made[0].calls[-1] == ("finalize", "success"), "it would stay open"


@pytest.mark.parametrize("service", SERVICES)
def test_without_the_packages_a_line_names_the_extra(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=rf"logger={service}: needs lightning, \w+: pip install '\.\[{service}\]'"):
        LightningLogger(service)
    with pytest.raises(ConfigError, match=r"logger\.service=aim: must be one of mlflow, comet"):
        LightningLogger("aim")


@pytest.mark.skipif(
    not find_spec("lightning") or not find_spec("mlflow") or not find_spec("alembic"), reason="without the extra mlflow"
)
def test_mlflow_has_what_was_logged(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    play(tmp_path, experiment_name="tries")
    uri = f"sqlite:///{tmp_path / 'mlflow' / 'runs.db'}"
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("tries")
    (run,) = client.search_runs([experiment.experiment_id])
    points = client.get_metric_history(run.info.run_id, "train/fitness_mean")
    assert [(point.step, point.value) for point in points] == [(1, 0.5), (2, 0.5)]
    assert run.data.metrics["summary/test_accuracy"] == 0.75
    assert run.data.params["algo/sigma"] == "0.1"
    assert run.info.status == "FINISHED"
    logger = LightningLogger("mlflow", {"experiment_name": "tries"})
    logger.start(tmp_path, {"algo": {"sigma": 0.2}}, 2)
    logger.log({"generation": 3, "fitness_mean": 0.25})
    logger.finish({})
    (run,) = client.search_runs([experiment.experiment_id])
    points = client.get_metric_history(run.info.run_id, "train/fitness_mean")
    assert [point.step for point in points] == [1, 2, 3]
    assert (run.info.status, run.data.params["algo/sigma"]) == ("FINISHED", "0.1")


def test_comet_without_a_server_writes_an_archive(stand_ins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lightning's own online=False switches Comet off."""
    monkeypatch.delenv("COMET_START_ONLINE", raising=False)
    said = []

    def made(**settings: Any) -> Recorder:
        said.append(os.environ.get("COMET_START_ONLINE"))
        return Recorder(**settings)

    monkeypatch.setattr(sys.modules["lightning.pytorch.loggers"], "CometLogger", made)
    for online in (False, True):
        LightningLogger("comet", {"online": online}).start(tmp_path, {}, None)
    assert said == ["0", None]
    assert [made.settings.get("online") for made in Recorder.made] == [None, True]
    assert "COMET_START_ONLINE" not in os.environ


@pytest.mark.parametrize(
    ("name", "content"), [(".comet.config", "[comet]\n"), (".env", "A=1\nexport COMET_URL_OVERRIDE=http://127.0.0.1:9\n")]
)
def test_the_current_folder_does_not_choose_comets_server(
    name: str, content: str, stand_ins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(
        UserError, match=rf"^logger=comet: {name} of the current folder could choose who gets your key; .*NEURO_TRUST=comet$"
    ):
        LightningLogger("comet").start(tmp_path, {}, None)
    assert Recorder.made == []
    monkeypatch.setenv("NEURO_TRUST", "comet")
    LightningLogger("comet").start(tmp_path, {}, None)
    monkeypatch.delenv("NEURO_TRUST")
    (tmp_path / name).rename(tmp_path / "away")
    (tmp_path / ".env").write_text("HOME_OF=others\n")
    LightningLogger("comet").start(tmp_path, {}, None)
    assert len(Recorder.made) == 2
