"""How commands end that something else ends: Ctrl-C, a module's own exit, a killed rank, a machine without room."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.inside import neuro_inside, one_line, well
from support.worlds import clean_environment

from neuro_cli.cli import entry
from neuro_cli.core.machine.memory import free_memory

SMALL = ("population=8", "batch_size=16", "threads=1", "generations=2")
NETS = """
import sys
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Conv2d(1, 2, 3), nn.Linear(72, 10)

    def forward(self, images):
        return self.out(self.first(images).flatten(1))

class EndsAtWork(Net):
    def forward(self, images):
        sys.exit(0)

class EndsWhenMade(Net):
    def __init__(self):
        sys.exit()
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "nets_that_end.py").write_text(NETS)
    return tmp_path


@pytest.mark.parametrize(
    ("override", "code", "line"),
    [
        ("model._target_=nets_that_end.EndsAtWork", 1, "SystemExit: 0"),
        ("model._target_=nets_that_end.EndsWhenMade", 2, "nets_that_end.EndsWhenMade: it ended the process (SystemExit: 0)"),
        ("distribution=local distribution._target_=sys.exit", 2, "distribution._target_=sys.exit: of Python's own modules"),
    ],
)
def test_code_that_exits_is_no_success(override, code, line, folder):
    done = neuro_inside("train", *SMALL, *override.split(), "hydra.run.dir=run", cwd=folder)
    assert done.returncode == code
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_evaluate_of_code_that_exits_is_no_success(folder):
    well(neuro_inside("train", *SMALL, "model._target_=nets_that_end.Net", "hydra.run.dir=run", cwd=folder))
    text = NETS.replace("return self.out", "sys.exit(0); return self.out")
    (folder / "nets_that_end.py").write_text(text)
    sys.modules.pop("nets_that_end")
    done = neuro_inside("evaluate", "run", "trust=nets_that_end", cwd=folder)
    assert done.returncode == 1
    assert "SystemExit: 0" in done.stderr


@pytest.mark.parametrize(("verb", "nulls"), [("train", ("+experiment=null",)), ("evolve", ("experiment=null", "+algo=null"))])
def test_the_value_that_a_group_has_by_default(verb, nulls, tmp_path):
    well(neuro_inside(verb, *nulls, "seed=4", "--cfg", "job", cwd=tmp_path))
    assert one_line(neuro_inside(verb, "-m", "experiment=null,mnist_fast", cwd=tmp_path)).startswith("experiment=null: ")
    assert "no such option" in one_line(neuro_inside(verb, "task=null", cwd=tmp_path))


MEMORY = ("MemTotal: 100 kB\nMemAvailable: 50 kB\n", 50 * 1024)


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, 51200),
        ({"memory.max": "max", "memory.current": "7"}, 51200),
        ({"memory.max": "1000", "memory.current": "300"}, 700),
        ({"memory.max": "1000", "memory.current": "3000"}, 0),
        ({"memory/memory.limit_in_bytes": "900", "memory/memory.usage_in_bytes": "100"}, 800),
        ({"memory/memory.limit_in_bytes": "9223372036854771712", "memory/memory.usage_in_bytes": "100"}, 51200),
    ],
)
def test_the_memory_that_is_left(files, free, tmp_path):
    (tmp_path / "meminfo").write_text(MEMORY[0])
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert free_memory(tmp_path / "cgroup", tmp_path / "meminfo") == free
    assert free_memory(tmp_path / "none", tmp_path / "none") is None


LOADING = """
import signal, sys
number = int(sys.argv.pop(1))

class Interrupting:
    '''Ctrl-C when the given module is asked for.'''
    counting = False

    def find_spec(self, name, path=None, target=None):
        global number
        self.counting = self.counting or name == "neuro_cli.cli.main"
        number -= self.counting
        if number == 0:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv[0] = "neuro"
from neuro_cli.cli.entry import main
main()
"""


# how many modules are imported before it comes; numpy, torch and Hydra among the later ones
@pytest.mark.parametrize("modules", [1, 1000])
def test_ctrl_c_while_it_loads(modules, tmp_path):
    """From the first import of ours on; what is imported lazily too, after Hydra has written its files."""
    command = [sys.executable, "-c", LOADING, str(modules), "train", *SMALL, "hydra.run.dir=run"]
    done = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (130, "neuro: interrupted\n")
    assert not (tmp_path / "run" / "metrics.csv").exists()
    well(neuro_inside("train", *SMALL, "hydra.run.dir=run", cwd=tmp_path))


SWALLOWED = """
import signal, sys

class Swallowing:
    '''Ctrl-C in an import of a library that goes on without the module.'''
    def find_spec(self, name, path=None, target=None):
        if name == "hydra.core.override_parser.overrides_parser":
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                raise ImportError("a module that is half there") from None

sys.meta_path.insert(0, Swallowing())
sys.argv[0] = "neuro"
from neuro_cli.cli.entry import main
main()
"""


@pytest.mark.parametrize("arguments", [("report", "run"), ("train", *SMALL, "hydra.run.dir=outputs/deep/run")])
def test_ctrl_c_that_a_library_swallows_is_no_error_of_its_own(arguments, tmp_path):
    """Seen with report: ImportError and its traceback, a second after the start; train left two empty folders."""
    command = [sys.executable, "-c", SWALLOWED, *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (130, "neuro: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_python_ends_without_a_search_through_all_of_torch(monkeypatch):
    """However a command ends: the objects that are left are no longer searched for cycles."""
    frozen = []
    monkeypatch.setattr(entry.ctrl_c, "listen", lambda: None)
    monkeypatch.setattr(entry.gc, "freeze", lambda: frozen.append(True))
    monkeypatch.setattr("neuro_cli.cli.main.main", lambda: sys.exit(3))
    with pytest.raises(SystemExit, match="3"):
        entry.main()
    assert frozen
