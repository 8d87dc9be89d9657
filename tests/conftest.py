"""Fixtures and hooks of all tests: which files share a worker, a folder for the user's files, real data where it exists."""

import gc
import os

# before numpy is imported: its threads wait at full speed for work, and the cores belong to several workers
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["OMP_NUM_THREADS"] = "1"  # as in the processes that tests start: a worker's fork server is a fork of it

import logging
import signal
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import settings
from support.forked import workers_python
from support.worlds import MPIS, Mpi

# a shell without job control starts background processes deaf to Ctrl-C, and so would be every process of a test
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# thousands of processes start: without .pyc files each would compile our modules again
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# hundreds of runs end with a plot that no test reads; a test that reads one sets NEURO_CURVES=1
os.environ["NEURO_CURVES"] = "0"

gc.disable()  # collection creates objects that all stay; pytest_collection_finish turns it on again

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "shared" / "data"
# folders whose tests mostly wait for processes, time-outs and SLURM; single files say so by the marker `waits`
WAITING = ("slurm", "evolve", "broker", "launch")
# long folders, which begin early, so that no worker is left with one at the end
LONG = (*WAITING, "mpi", "runner", "cli", "docs", "bench", "search", "scaling", "report", "fabric", "scoring", "core", "library")


def pytest_configure(config: pytest.Config) -> None:
    """Set draws, and refuse several workers where pytest-xdist would ignore the groups of tests, which it does without a word."""
    # fewer draws than 100, others in every run, where a test names no number; a deadline would be a timed assertion
    settings.register_profile("tests", max_examples=40, deadline=None)
    settings.load_profile("tests")
    if config.getoption("tx", None) and pytest.version_tuple >= (9, 2) and version("pytest-xdist") == "3.8.0":
        raise pytest.UsageError("pytest-xdist 3.8 takes no groups with pytest 9.2: pip install 'pytest<9.2'")
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        config.option.tx = [f"popen//python={workers_python()}"] * len(config.option.tx)


def pytest_collection_finish() -> None:
    """Exempt all that was imported from garbage collection, and let torch compute on the process's own thread.

    Composing configs creates objects by the ten thousand, and each full collection went through all of torch and of the tests.
    """
    gc.set_threshold(50_000, 20, 20)
    gc.freeze()
    gc.enable()
    if "torch" in sys.modules:  # several processes share the cores, where a pool of threads in each costs more than it saves
        sys.modules["torch"].set_num_threads(1)
    for name, logger in logging.root.manager.loggerDict.items():  # pytest gives a handler to each that does not propagate,
        if name.startswith("torch") and isinstance(logger, logging.Logger):  # six times a test; torch has 57
            logger.propagate = True


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the items by file where they name no group, and spread the groups that wait among those that compute.

    A group is the work of one worker, and workers take groups in order. While one waits, the cores are those of the others.
    """
    paths = {path: path.relative_to(HERE) for path in {item.path for item in items}}
    groups: dict[pytest.Item, str] = {}
    waiting: dict[str, None] = {}
    items.sort(key=lambda item: _place(paths[item.path]))
    for item in items:
        path = paths[item.path]
        mark = item.get_closest_marker("xdist_group")
        if mark is None:
            mark = pytest.mark.xdist_group("slurm" if path.parts[0] == "slurm" else str(path.with_suffix(""))).mark
            item.own_markers.append(mark)
        groups[item] = str(mark.args[0])
        if path.parts[0] in WAITING:
            item.own_markers.append(pytest.mark.waits.mark)
        if item.get_closest_marker("waits"):
            waiting[groups[item]] = None
    computing = [name for name in dict.fromkeys(groups.values()) if name not in waiting]
    turns = {name: place / len(computing) for place, name in enumerate(computing)}
    turns |= {name: 0.7 * place / len(waiting) for place, name in enumerate(waiting)}  # none is left for the end
    items.sort(key=lambda item: turns[groups[item]])


def _place(path: Path) -> int:
    """Return the place of a file's folder among the long ones."""
    folder = path.parts[0]
    return LONG.index(folder) if folder in LONG else len(LONG)


@pytest.fixture(scope="session", autouse=True)
def _no_users_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what neuro stores for its user (certificates, tokens) in a folder of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Seed torch, so that a test draws the same numbers whatever ran in its worker before it."""
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(0)  # the CPU's alone: less work than torch.manual_seed


@pytest.fixture(autouse=True)
def _heard() -> None:
    """Let neuro's log reach pytest's handler at the root, even where an earlier test's run has cut it off, as runs do."""
    logging.getLogger("neuro_cli").propagate = True


@pytest.fixture(scope="module")
def kept_choices() -> Iterator[None]:
    """Compose each choice of options once in a file of tests that only check commands."""
    from support.composing import compose_once  # late: not every test needs Hydra

    with pytest.MonkeyPatch.context() as patch:
        compose_once(patch)
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder with real MNIST and the CIFAR-10 subset; skips where it is absent."""
    if not DATA.is_dir():
        pytest.skip("no shared/data next to the checkout")
    return DATA


@pytest.fixture(scope="session", params=sorted(MPIS, reverse=True))
def mpi(request: pytest.FixtureRequest) -> Mpi:
    """Each MPI in turn; skips one that is not installed."""
    mpi = MPIS[request.param]()
    if mpi.missing:
        pytest.skip(mpi.missing)
    return mpi
