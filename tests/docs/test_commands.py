"""Every command of README.md, CONTRIBUTING.md and docs/*.md names verbs, options, keys, files and extras that are there."""

import pickle
import re
from functools import cache

import pytest
from doc_checks import StaleError, check
from doc_commands import Command, all_commands, commands_of, lines_of
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import OverrideType
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from neuro_cli.cli.main import help_text
from neuro_cli.cli.options.groups import TABLES, groups
from neuro_cli.cli.overrides import check as argument_check
from neuro_cli.cli.overrides import composition
from neuro_cli.core.errors import UserError
from neuro_cli.launch import slurm_sweep

pytestmark = pytest.mark.usefixtures("kept_choices")

COMMANDS = all_commands()
# what is composed but by no test run as it stands, and why; each pattern must be met by a command
NOT_RUN = {
    "hydra/launcher=slurm": "needs a cluster: tests/slurm run sweeps on a private SLURM",
    "hydra/sweeper=optuna": "needs the extra sweep: tests/cli/test_outside_sweepers.py runs such a sweep",
    "hydra/launcher=joblib": "needs the extra sweep: tests/cli/test_outside_sweepers.py runs such a sweep",
    "hydra/launcher=ray": "needs the extra ray: tests/cli/test_outside_sweepers.py runs such a sweep",
    "srun ": "needs a cluster and GPUs",
    "mpiexec -n 64": "needs a cluster",
    "CUDA_VISIBLE_DEVICES": "needs several GPUs",
    "fabric.interface=eth1": "needs that network",
    "fabric=infiniband_fdr": "needs that network",
    "task.download=true": "downloads a data set",
    "neuro bench": "takes minutes to hours: tests/bench/test_bench*.py run every kind at a small size",
    "neuro scale": "takes minutes to hours: tests/scaling run studies at a small size",
    "python scripts/bench": "takes minutes to hours: tests/scripts run them at a small size",
    "python scripts/module_zoo": "takes a quarter of an hour and other packages: tests/scripts run its parts",
    "python scripts/ten_networks": "takes an hour: tests/scripts runs it at a small size",
    "cluster.join=": "needs another machine: tests/evolve join clusters on this one",
    "role=": "waits for other processes: tests/broker start all of them",
    "npm install": "needs Node.js and a download: tests/broker/test_node_worker.py runs the worker where they are",
}
# options that the page itself makes
OF_THE_PAGE = ("sampler=uniform", "task=bars", "task=sines")


def of_the_page(command: Command) -> bool:
    return any(option in command.words for option in OF_THE_PAGE)


@pytest.fixture(autouse=True)
def _somewhere(tmp_path, monkeypatch):
    """A folder of its own, a machine that may submit jobs, and every config composed once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(slurm_sweep, "check", needs_a_sweep)
    for module in (argument_check, composition):
        monkeypatch.setattr(module, "compose_choices", lambda verb, texts: composed(verb, tuple(texts)))


def needs_a_sweep(multirun: bool, *_: object) -> None:
    if not multirun:
        raise UserError("hydra/launcher: it starts the jobs of a sweep, so it needs -m")


@cache
def composed_groups(verb: str, texts: tuple[str, ...], compose=composition.compose_choices):
    return pickle.dumps(compose(verb, list(texts)))  # a copy by pickle takes a quarter of deepcopy's time


def composed(verb: str, texts: tuple[str, ...]):
    """As ``compose_choices``, but Hydra composes a choice of groups once, and plain values are set in a copy of it."""
    known, parser = {*groups(), TABLES}, OverridesParser.create()
    parsed = [parser.parse_override(text) for text in texts]
    plain = [
        override.type is OverrideType.CHANGE
        and not override.is_sweep_override()
        and override.key_or_group not in known
        and not override.key_or_group.startswith("hydra")
        for override in parsed
    ]
    rest = tuple(text for text, is_plain in zip(texts, plain, strict=True) if not is_plain)
    config = pickle.loads(composed_groups(verb, rest))
    for override, is_plain in zip(parsed, plain, strict=True):
        if is_plain:
            try:
                OmegaConf.update(config, override.key_or_group, override.value(), merge=False)
            except OmegaConfBaseException as error:
                raise UserError(" ".join(str(error).split())) from error
    return config


@pytest.mark.parametrize("command", [command for command in COMMANDS if not of_the_page(command)], ids=str)
def test_a_command_of_the_pages_would_work(command, tmp_path):
    try:
        check(command.words, tmp_path)
    except UserError as error:
        pytest.fail(f"{command.place}: {command.text.strip()}\n{error}")


def test_the_examples_of_the_help_would_work(tmp_path):
    examples = help_text().partition("\nexamples\n")[2].partition("\n\n")[0].splitlines()
    assert len(examples) > 4
    for example in examples:
        words = re.split(r" {2,}", example.strip())[0].split()  # the comment stands apart
        check(tuple(words), tmp_path)


def test_the_pages_have_commands():
    pages = {command.place.split(":")[0] for command in COMMANDS}
    assert {"README.md", "darwinn.md", "cluster.md", "extending.md", "troubleshooting.md"} <= pages
    assert len(COMMANDS) > 100
    assert {command.words[0] for command in COMMANDS} >= {"neuro", "mpiexec", "pip", "make", "python"}


@pytest.mark.parametrize("pattern", NOT_RUN)
def test_what_is_not_run_is_still_in_a_page(pattern):
    assert any(pattern in " ".join(command.words) for command in COMMANDS)


@pytest.mark.parametrize(
    "line",
    [
        "neuro trian",
        "neuro train algo=sness",
        "neuro train +alg=snes",
        "neuro train algo.sigm=0.1",
        "neuro train population=127",
        "neuro train ranks=2 distribution=local",
        "neuro train task=lunar_lander algo=sgd model=mlp_policy",
        "neuro train -m algo=snes,openai_ess",
        "neuro train algo.sigma=-1",
        "neuro train model._target_=my_package.Nett",
        "neuro train algo=ensemble algo.members=[{modle:MNIST_30K}] distribution=local",
        "mpiexec --np 2 neuro train",
        "mpiexec -n 2 neuro train distribution=chromosome",
        "neuro evolve cluster.join=nowhere",
        "neuro search trainngs=3",
        "neuro search strategy.mutation=2",
        "neuro scale methods=[semi_update]",
        "neuro bench layers",
        "neuro resume RUN seed=3",
        "neuro evaluate RUN seed=3",
        "neuro doctor now",
        "pip install '.[reinforcement]'",
        "pip install torchvison",
        "make tests",
        "python scripts/bench_pears.py",
        "python scripts/bench_peers.py --sistems neuro",
        "python scripts/bench_evolve.py task=lunar_landing",
        "pytest tests/sampler/test_none.py",
        "export NEURO_SRUN_MPY=pmix",
        'eval "$(scripts/slurm_local.sh begin)"',
        "exec neuro train rank=2",
        "sh -c 'A=1 exec neuro train seeds=2'",
        "rm -rf outputs",
    ],
)
def test_a_stale_command_is_seen(line, tmp_path):
    (command,) = commands_of("page.md", f"Text.\n\n    {line}\n")
    with pytest.raises((UserError, StaleError)):
        check(command.words, tmp_path)


def test_commands_are_found_wherever_they_stand():
    page = """Text with `neuro train seed=1` and `seed=2`, over a line's end `neuro train
    seed=3`.

    neuro train seed=4   # a comment; with && and 'quotes'
    neuro train \\
        seed=5

```bash
A=1 neuro train seed=6 && neuro train seed=7; neuro train seed=8
```

```text
neuro train seed=9
```

```{eval-rst}
.. autoclass:: neuro train seed=11
   :members:

    neuro train seed=12
```

| `neuro train seed=10` | cell |
"""
    seeds = [word for command in commands_of("page.md", page) for word in command.words if word.startswith("seed=")]
    assert sorted(seeds) == sorted(f"seed={number}" for number in (1, 3, 4, 5, 6, 7, 8, 10))
    assert {command.place for command in commands_of("page.md", page)} == {"page.md:1", "page.md:4", "page.md:8", "page.md:23"}


def test_a_separator_in_quotes_or_a_comment_separates_nothing():
    assert lines_of("sh -c 'a; b' # c; d\ne; f") == ["sh -c 'a; b' # c; d", "e", "f"]
