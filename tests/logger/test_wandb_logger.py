"""wandb records offline without a key. Its first failure is a warning, and ends nothing."""

import logging
import re
import socket
import subprocess
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest
from support.inside import well
from support.waiting import until

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.logger import wandb as module
from neuro_cli.logger.several import Threaded
from neuro_cli.logger.wandb import WandbLogger, has_key, previous_identifier


@pytest.fixture(autouse=True)
def _no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """No key, no settings of this machine's user, nothing written to their home."""
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    caplog.set_level(logging.INFO, logger=module.__name__)


def play(run: Path, generations: range = range(1, 4), resumed_at: int | None = None) -> None:
    logger = Threaded(WandbLogger())
    logger.start(run, {"algo": {"sigma": 0.0234}}, resumed_at)
    for generation in generations:
        logger.log({"generation": generation, "fitness_mean": 0.5, "test_accuracy": None})
    logger.finish({"test_loss": 0.0625, "versions": {"python": "3"}})


def recorded(folder: Path, *expected: bytes) -> bytes:
    """Return the file that wandb's process wrote of a run, once it contains ``expected``, a moment after the run's end."""
    (record,) = folder.glob("run-*.wandb")
    until(lambda: all(each in record.read_bytes() for each in expected), 60, expected)
    return record.read_bytes()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return our warnings; wandb's own modules log as well."""
    own = [record for record in caplog.records if record.name.startswith("neuro_cli.")]
    return [record.getMessage() for record in own if record.levelno >= logging.WARNING]


def test_offline_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("wandb")
    run = tmp_path / "run"
    play(run)
    (folder,) = (run / "wandb").glob("offline-run-*")
    content = recorded(folder, b"train/fitness_mean", b"0.0234", b"test_loss", b"0.0625")
    assert b"test_accuracy" not in content
    assert f"no key of wandb: recording offline; upload with: wandb sync {run}/wandb/offline-run-*" in caplog.text
    assert warnings(caplog) == []

    time.sleep(1)  # wandb names its folders by the second
    play(run, range(3, 5), resumed_at=2)
    first, second = sorted((run / "wandb").glob("offline-run-*"))
    assert first.name.split("-")[-1] == second.name.split("-")[-1] == previous_identifier(run / "wandb")


def test_what_a_team_needs_goes_to_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    """Real wandb, offline: group of the sweep, name of what was typed, tags, and network and config as an artifact."""
    pytest.importorskip("wandb")
    sweep, run = tmp_path / "night", tmp_path / "night" / "3"
    (run / ".hydra").mkdir(parents=True)
    (sweep / "multirun.yaml").touch()
    (run / ".hydra" / "overrides.yaml").write_text("- algo=snes\n- +algo.x=2\n- logger=wandb\n- hydra.sweep.dir=night\n")
    (run / ".hydra" / "config.yaml").write_text("seed: 1\n")
    (run / "model.safetensors").write_bytes(b"the network")
    logger = WandbLogger(project="apples", entity="team", tags=["first", 2], job_type="tries", log_model=True)
    logger.start(run, {}, None)
    logger.log({"generation": 1, "fitness_mean": 0.5})
    logger.finish({})
    (folder,) = (run / "wandb").glob("offline-run-*")
    recorded(
        folder, b"apples", b"team", b"night", b"algo=snes,algo.x=2", b"first", b"tries", b"model.safetensors", b"config.yaml"
    )
    assert capsys.readouterr().out == f"neuro: wandb: offline; upload it with: wandb sync {folder}\n"


class FakeRun:
    """A run whose calls fail from the ``fails``-th on."""

    id, offline, url = "abc", True, ""

    def __init__(self, fails: int = 9) -> None:
        self.fails = fails
        self.steps: list[int] = []
        self.summary: dict[str, object] = {}

    def log(self, metrics: dict[str, float], step: int) -> None:
        if step >= self.fails:
            raise RuntimeError("the service\nis gone")
        self.steps.append(step)

    def finish(self) -> None:
        self.steps.append(0)  # the end
        if self.fails == 9:
            raise RuntimeError("the service is gone")


class FakeWandb(types.ModuleType):
    """A module in place of wandb, with the arguments of each start in ``asked``."""

    Settings = dict

    def __init__(self, run: FakeRun) -> None:
        super().__init__("wandb")
        self.run, self.asked = run, list[dict[str, Any]]()

    def init(self, **arguments: Any) -> FakeRun:
        self.asked.append(arguments)
        return self.run

    def setup(self) -> types.SimpleNamespace:
        return types.SimpleNamespace(settings=types.SimpleNamespace(base_url="https://api.wandb.ai"))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeWandb:
    module = FakeWandb(FakeRun())
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_the_users_environment_and_keys_count(fake: FakeWandb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    play(tmp_path / "run")
    assert [fake.asked[0][key] for key in ("name", "group", "mode")] == ["run", None, "offline"]
    monkeypatch.setenv("WANDB_NAME", "mine")
    monkeypatch.setenv("WANDB_MODE", "online")
    caplog.clear()
    play(tmp_path / "run")
    assert [fake.asked[1][key] for key in ("name", "mode")] == [None, None]  # wandb takes the variables
    assert "recording offline" not in caplog.text
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    for mode in ("offline", "online", None):
        WandbLogger(mode=mode).start(tmp_path, {}, None)
    assert [asked["mode"] for asked in fake.asked[2:]] == ["offline", "online", None]


@pytest.mark.parametrize("name", ["wandb/settings", ".wandb/settings"])
def test_the_current_folder_does_not_choose_who_gets_the_key(
    name: str, fake: FakeWandb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that `wandb init` writes are accepted; a server, a proxy, headers or an unreadable file are refused."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / name
    file.parent.mkdir()
    for text in ("[default]\nbase_url = http://127.0.0.1:9\n", "[DEFAULT]\nhttps_proxy = http://127.0.0.1:9\n", "base_url\n"):
        file.write_text(text)
        with pytest.raises(UserError, match=rf"^logger=wandb: {name} of the current folder sets .*NEURO_TRUST=wandb$"):
            play(tmp_path / "run")
    assert fake.asked == []
    monkeypatch.setenv("NEURO_TRUST", "wandb")
    play(tmp_path / "run")
    monkeypatch.delenv("NEURO_TRUST")
    file.write_text("[default]\nentity = team\nproject = apples\n")
    play(tmp_path / "run")
    monkeypatch.syspath_prepend(str(tmp_path))  # a user's own script or command
    play(tmp_path / "run")
    assert [asked["settings"]["disable_git"] for asked in fake.asked] == [True, True, False]


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"project": ""}, "logger.project=: must be the name of a project"),
        ({"tags": "one"}, "logger.tags=one: must be a list of texts"),
        ({"group": ["a"]}, "logger.group=.*: must be a text"),
    ],
)
def test_bad_settings(settings: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        WandbLogger(**settings)


def test_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    play(tmp_path / "run")
    (warning,) = warnings(caplog)
    assert warning.startswith("wandb failed to start (ModuleNotFoundError: ")
    assert warning.endswith("nothing more is sent there, the run continues")


@pytest.mark.parametrize(("fails", "verb"), [(2, "log"), (9, "finish")])
def test_breaks_on_the_way(fails: int, verb: str, fake: FakeWandb, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fake.run = FakeRun(fails)
    play(tmp_path / "run")
    assert fake.run.steps == [*(step for step in (1, 2, 3) if step < fails), 0]
    (warning,) = warnings(caplog)
    assert warning.startswith(f"wandb failed to {verb} (RuntimeError: the service is gone)")


def test_a_server_that_does_not_answer_holds_up_nothing(
    fake: FakeWandb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(fake, "init", lambda **_: answers.wait(240) and fake.run)  # who waited for it would have no run
    monkeypatch.setattr(module, "START_SECONDS", 0.2)
    monkeypatch.setattr(module, "FINISH_SECONDS", 0.2)
    play(tmp_path / "run")
    assert warnings(caplog) == ["wandb does not answer: what it has not uploaded stays in the run folder"]
    answers.set()
    for thread in threading.enumerate():  # the thread waits for the answer: it would warn in a later test
        if thread.name.startswith("neuro-"):
            thread.join(30)
    assert fake.run.steps == [1, 2, 3, 0]


REFUSED = """
import logging, sys, threading
from pathlib import Path
from typing import Any
from neuro_cli.logger import wandb
from neuro_cli.logger.several import Threaded
logging.basicConfig(format="%(levelname)s %(name)s %(message)s")
wandb.START_SECONDS = 1.0
inner, gone_on = wandb.WandbLogger(), threading.Event()
start = inner.start
inner.start = lambda *given: gone_on.wait() and start(*given)
logger = Threaded(inner)
logger.start(Path(sys.argv[1]), {}, None)
logger.log({"generation": 1, "fitness_mean": 0.5})
gone_on.set()  # who waited for the connection would not come here
logger.finish({})
"""


def test_a_refused_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own: wandb reads the address of the server once."""
    pytest.importorskip("wandb")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{port}")
    command = [sys.executable, "-c", REFUSED, str(tmp_path)]
    ended = well(subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=tmp_path))
    told = [line for line in ended.stderr.splitlines() if line.startswith("WARNING neuro_cli")]
    assert len(told) == 1, ended.stderr
    # wandb 0.30 puts it in other words than 0.31
    assert re.search(rf"wandb does not answer \(CommError: Timed out .*http://127\.0\.0\.1:{port}", told[0]), told
    assert told[0].endswith(": recording offline, to be uploaded later")
    # what came while it was tried is not lost
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    assert f"neuro: wandb: offline; upload it with: wandb sync {folder}" in ended.stdout
    recorded(folder, b"fitness_mean")


FORGE, LEGACY, OWN = "https://api.forge.coreweave.com", "https://api.wandb.ai", "https://example.org:8080"


@pytest.mark.parametrize(
    ("machine", "known"),
    [
        ("machine example.org:8080 ", (False, False, True)),
        ("machine api.wandb.ai ", (True, True, False)),
        ("machine api.forge.coreweave.com ", (True, False, False)),
        ("nonsense ", (False, False, False)),
    ],
)
def test_has_key(machine: str, known: tuple[bool, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert not has_key(LEGACY)
    (tmp_path / "netrc").write_text(f"{machine}login user password secret\n")
    assert tuple(map(has_key, (FORGE, LEGACY, OWN))) == known
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    assert has_key(LEGACY)
