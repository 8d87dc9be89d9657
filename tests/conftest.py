"""What all tests share: the composed config of a run, and the data beside the checkout when it is there."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from support.worlds import MPIS, Mpi

# a shell without job control starts what it puts into the background deaf to Ctrl-C, and so would be all that tests start
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# thousands of processes start: each would compile our modules again
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# hundreds of runs end with a plot that no test reads: those that do say NEURO_CURVES=1
os.environ["NEURO_CURVES"] = "0"

# most of their time is of processes that they start, and SLURM's mostly wait: the other workers have the rest meanwhile
LONG = (
    "slurm", "mpi", "election", "runner", "evolve", "search", "launch", "fabric", "broker", "scaling", "cli", "bench", "report",
    "docs", "reproduce", "scripts", "run_folder", "pool",
)  # fmt: skip
# one worker has them all: their ranks are those of one world (tests/support/shared_world.py)
ON_SHARED_RANKS = (
    "mpi/test_equality.py", "mpi/test_rounded_sums.py", "runner/test_resume_rounded.py", "runner/test_ensemble_runs.py",
    "runner/test_target.py", "distribution/test_efficiency.py", "cli/test_bad_input.py", "cli/test_cli.py",
    "cli/test_resume_arguments.py", "cli/test_library.py",
)  # fmt: skip
# so has one worker these, which compose the same options
ON_SAME_OPTIONS = ("conf/test_options.py", "factory/test_construct.py")
# what mostly waits, for processes, time-outs and SLURM: with a worker more than cores it is the work of that one alone
WAITING = (
    "slurm/", "broker/", "evolve/", "launch/", "search/test_search_runs.py", "runner/test_resume.py", "cli/test_one_rank.py",
    "bench/test_stopwatch.py", "report/test_page_in_chromium.py",
)  # fmt: skip
DATA = Path(__file__).parents[2] / "shared" / "data"


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what the whole session keeps, and torch compute on the process's own thread.

    Composing configs makes objects by the ten thousand, and each full collection went through all of torch and of the tests.
    """
    gc.set_threshold(50_000, 20, 20)
    gc.collect()
    gc.freeze()
    if "torch" in sys.modules:  # several processes share the cores: a pool of threads in each costs more than it does
        sys.modules["torch"].set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest folders first, so that no worker is left with one at the end."""
    here = Path(__file__).parent
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.relative_to(here).parts[0], len(LONG)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file is the work of one worker, in the order above; files that share a world of ranks are that of one too."""
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            together = {"on shared ranks": ON_SHARED_RANKS, "on the same options": ON_SAME_OPTIONS}
            return next((scope for scope, files in together.items() if file.removeprefix("tests/") in files), file)

        waits: Any = None  # the worker of WAITING

        def _assign_work_unit(self, node: Any) -> None:
            """Leave as many workers as cores to what computes: one more costs each of them a tenth of its time."""
            if self.waits is None and len(self.nodes) > len(os.sched_getaffinity(0)):
                self.waits = node
            own = [scope for scope in self.workqueue if scope.removeprefix("tests/").startswith(WAITING) == (node is self.waits)]
            if own:
                self.workqueue.move_to_end(own[0], last=False)
            elif node is self.waits:
                node.shutdown()
                return
            super()._assign_work_unit(node)

    config.option.loadscopereorder = False
    return Files(config, log)


@pytest.fixture(scope="session", autouse=True)
def _no_users_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What neuro keeps for its user (certificates, tokens) goes to a folder of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _files_of_conf_are_parsed_once() -> Iterator[None]:
    """Hydra reads twenty files for each command, in a parser of pure Python that takes a quarter of the composition."""
    import pickle

    import yaml

    conf, parse, kept = str(Path(__file__).parents[1] / "conf") + os.sep, yaml.load, dict[tuple[Any, ...], bytes]()

    def load(stream: Any, Loader: Any) -> Any:  # noqa: N803 (yaml's name)
        name = os.path.realpath(str(getattr(stream, "name", "")))
        if not name.startswith(conf):
            return parse(stream, Loader)
        state = os.stat(name)
        key = name, state.st_mtime_ns, state.st_size, Loader.__name__
        if key not in kept:
            kept[key] = pickle.dumps(parse(stream, Loader))
        return pickle.loads(kept[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "load", load)
        yield


@pytest.fixture(scope="module")
def kept_choices() -> Iterator[None]:
    """Compose each choice of options once in a file of tests that only check commands."""
    from support.composing import composed_once  # late: not every test needs Hydra

    with composed_once():
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder with real MNIST and the CIFAR-10 subset; skips where it is absent."""
    if not DATA.is_dir():
        pytest.skip("no shared/data beside the checkout")
    return DATA


@pytest.fixture(scope="session", params=sorted(MPIS, reverse=True))
def mpi(request: pytest.FixtureRequest) -> Mpi:
    """Each MPI in turn; skips one that is not installed."""
    found = MPIS[request.param]()
    if found.missing:
        pytest.skip(found.missing)
    return found
