"""Every command of the pages names verbs, options, keys, files and extras that exist: one case a page."""

from importlib.util import find_spec

import pytest
from doc_checks import StaleError, check
from doc_commands import PAGES, Command, all_commands, commands_of, name_of
from support.composing import forget_options

from neuro_cli.cli.main import EXAMPLES
from neuro_cli.core.errors import UserError
from neuro_cli.launch import slurm_submit

pytestmark = pytest.mark.usefixtures("kept_choices")

# what is composed but not run by a test as it stands, and why; each pattern is met by a command
NOT_RUN = {
    "hydra/launcher=slurm": "needs a cluster: tests/slurm run sweeps on a private SLURM",
    "hydra/sweeper=optuna": "needs the extra sweep: tests/cli/test_optuna_sweeper.py runs such a sweep",
    "hydra/launcher=joblib": "needs the extra sweep: tests/cli/test_outside_sweepers.py runs such a sweep",
    "hydra/launcher=ray": "needs the extra ray: tests/cli/test_outside_sweepers.py runs such a sweep",
    "pool=ray": "needs the extra ray: tests/pool/test_ray_pool.py searches with it",
    "task.simulator=envpool": "needs the extra envpool: tests/task/reinforcement/test_envpool.py runs it",
    "task=pettingzoo": "needs the extra pettingzoo: tests/task/reinforcement/test_pettingzoo.py runs it",
    "task.id=ale_py:": "needs those packages: tests/task/reinforcement/test_wrappers.py wrap and stack",
    "srun ": "needs a cluster and GPUs",
    "mpiexec -n 64": "needs a cluster",
    "CUDA_VISIBLE_DEVICES": "needs several GPUs",
    "device=cuda": "needs a GPU",
    "fabric.interface=eth1": "needs that network",
    "fabric=infiniband_fdr": "needs that network",
    "task.download=true": "downloads a data set",
    "task.root=FOLDER": "needs a folder of images: tests/task learn from one",
    "neuro bench": "takes minutes to hours: tests/bench/test_bench*.py run every kind at a small size",
    "neuro scale": "takes minutes to hours: tests/scaling run studies at a small size",
    "python scripts/": "takes minutes to hours or other packages: tests/scripts run them at a small size",
    "cluster.join=": "needs another machine: tests/evolve join clusters on this one",
    "role=": "waits for other processes: tests/broker start all of them",
    "npm install": "needs Node.js and a download: tests/broker/test_node_worker.py runs the worker where they are",
}
# options that a page itself makes: test_extending.py
OF_THE_PAGE = ("sampler=uniform", "task=bars", "task=sines", "algo=cem", "logger=jsonl", "logger=[jsonl,tensorboard]")


def of_the_page(command: Command) -> bool:
    return any(option in command.words for option in OF_THE_PAGE)


@pytest.fixture(autouse=True)
def _somewhere(tmp_path, monkeypatch):
    """A folder of its own, a machine that may submit jobs, and no other page's options."""
    forget_options()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(slurm_submit, "check", needs_a_sweep)


def needs_a_sweep(multirun: bool, *_: object) -> None:
    if not multirun:
        raise UserError("hydra/launcher: it starts the jobs of a sweep, so it needs -m")


_found: dict[tuple[str, ...], str] = {}  # what is wrong with a command, which may stand on several pages


def stale(command: Command, folder) -> str:
    """What is wrong with a command; empty for one that would work."""
    if command.words not in _found:
        try:
            check(command.words, folder)
            _found[command.words] = ""
        except (UserError, StaleError) as error:
            _found[command.words] = str(error)
    error = _found[command.words]
    if not error or ("task=pettingzoo" in command.words and find_spec("mpe2") is None):  # an extra
        return ""
    return f"{command.place}: {command.text.strip()}\n    {error}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_of_a_page_would_work(page, tmp_path):
    commands = {command.words: command for command in commands_of(name_of(page), page.read_text())}.values()
    found = [stale(command, tmp_path) for command in commands if not of_the_page(command)]
    assert "\n".join(filter(None, found)) == ""


def test_the_examples_of_the_help_would_work(tmp_path):
    assert len(EXAMPLES) > 4
    for example in EXAMPLES:
        check(tuple(example.split()), tmp_path)


def test_the_pages_have_commands_and_what_is_not_run_is_among_them():
    commands = all_commands()
    assert len(commands) > 100
    assert {command.words[0] for command in commands} >= {"neuro", "mpiexec", "pip", "make", "python"}
    texts = [" ".join(command.words) for command in commands]
    assert [pattern for pattern in NOT_RUN if not any(pattern in text for text in texts)] == []


STALE = """
neuro trian
neuro train algo=sness
neuro train population=127
neuro train ranks=2 distribution=local
neuro train model._target_=my_package.Nett
neuro train algo=ensemble algo.members=[{modle:MNIST_30K}] distribution=local
mpiexec --np 2 neuro train
neuro search trainngs=3
neuro bench layers
neuro resume RUN seed=3
neuro doctor now
pip install '.[reinforcement]'
make tests
python scripts/bench_peers.py --sistems neuro
export NEURO_SRUN_MPY=pmix
eval "$(scripts/slurm_local.sh begin)"
sh -c 'A=1 exec neuro train seeds=2'
rm -rf outputs
"""


def test_stale_commands_are_seen(tmp_path):
    block = "".join(f"    {line}\n" for line in STALE.strip().splitlines())
    commands = commands_of("page.md", f"Text.\n\n{block}")
    assert len(commands) == len(STALE.strip().splitlines())
    assert [command.text for command in commands if not stale(command, tmp_path)] == []
