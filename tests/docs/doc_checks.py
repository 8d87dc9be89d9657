"""Whether a command of the pages is one that would work: its verb, options and keys are there and its config can be made.

Nothing is trained. Raises ``UserError`` or ``StaleError`` for a command that a reader would copy in vain.
"""

import importlib.util
import re
import sys
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from doc_commands import ROOT
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from support.inside import neuro_inside
from torch import nn

from neuro_cli.bench.bench import KINDS
from neuro_cli.cli.options.groups import with_members
from neuro_cli.cli.overrides import composition
from neuro_cli.cli.overrides.check import checked
from neuro_cli.cli.overrides.words import parse_plain
from neuro_cli.cli.registry import MODULES
from neuro_cli.cli.reproduce import entries_of
from neuro_cli.cli.search import SEARCH_RESUME_KEYS
from neuro_cli.core.errors import UserError
from neuro_cli.core.files import config_folder
from neuro_cli.distribution.ensemble.single_graph import SingleGraph
from neuro_cli.distribution.local import Local
from neuro_cli.distribution.method import Method
from neuro_cli.evolve.evolve import check as check_cluster
from neuro_cli.fabric.network import Network
from neuro_cli.factory.instantiate import make
from neuro_cli.logger.base import Logger
from neuro_cli.runner.config import RESUME_GROUPS, RESUME_KEYS, RunConfig
from neuro_cli.runner.ensemble.members import kinds_of
from neuro_cli.runner.options import Options
from neuro_cli.sampler.base import Estimator
from neuro_cli.scaling.plan import study_of
from neuro_cli.search.settings import check as check_search
from neuro_cli.task.base import Task

# what a reader puts something of their own in the place of
PLACES = {
    "<stamp>": "stamp",
    "RUN": "outputs/train/stamp",
    "HOST:PORT": "host:7700",
    "/path/libmpi.so": "libmpi.so",
}
NEEDS_A_FOLDER = ("resume", "evaluate", "export", "predict", "report")
LAUNCHERS = {"mpiexec": ("-n", "--oversubscribe"), "srun": ("--ntasks-per-node", "--gpus-per-task", "--mpi"), "exec": ()}
MOST_JOBS = 9  # of a sweep, that are composed
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# what neuro search exports, and a module of a user's own
BEST = """
_target_: neuro_cli.model.module_cnn.ModuleCNN
module: [3x3]
input_shape: [1, 8, 8]
outputs: 10
filters: 8
repeats: 2
batch_norm: false
"""
NET = """
import torch
from torch import nn
from torch.utils.data import TensorDataset


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))


class Examples(TensorDataset):
    def __init__(self, train=True):
        super().__init__(torch.rand(64, 1, 28, 28), torch.arange(64) % 10)


Mine = Examples


def table():
    return torch.rand(64, 5), torch.rand(64, 2)
"""
OPTIONS = {
    "sampler/mine.yaml": "_target_: neuro_cli.sampler.iid.Iid\n",
    "experiment/tuned.yaml": "# @package _global_\npopulation: 12\n",
}


def folder_of_options(cwd: Path) -> None:
    """A user's own options, as docs/extending.md shows them."""
    for name, text in OPTIONS.items():
        (cwd / "options" / name).parent.mkdir(parents=True, exist_ok=True)
        (cwd / "options" / name).write_text(text)


class StaleError(Exception):
    """A command that names something that is not there."""


def check(words: tuple[str, ...], cwd: Path) -> None:
    """Check one command line in the working directory ``cwd``, which is the process's too."""
    while words and (re.match(r"[A-Z_0-9]+=", words[0]) or words[0] in LAUNCHERS):
        words = words[1:] if words[0] not in LAUNCHERS else behind_launcher(words)
    if not words:
        return
    program, rest = words[0].rsplit("/", 1)[-1], list(words[1:])
    if words[0] == "sh" and rest[:1] == ["-c"]:
        check(tuple(rest[1].split()), cwd)
    elif program == "neuro":
        check_neuro([placed(word) for word in rest], cwd)
    elif program in OTHERS:
        OTHERS[program](rest, cwd)
    elif words[0].startswith("scripts/"):
        check_script(words[0], rest)
    else:
        raise StaleError(f"{words[0]}: no program that the pages may use")


def behind_launcher(words: tuple[str, ...]) -> tuple[str, ...]:
    """The program that a launcher starts. Raises StaleError for an option that is not known."""
    allowed, rest = LAUNCHERS[words[0]], list(words[1:])
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option.partition("=")[0] not in allowed:
            raise StaleError(f"{words[0]} {option}: not an option of the pages")
        if option == "-n" and not rest.pop(0).isdigit():
            raise StaleError(f"{words[0]} -n: needs a number")
    return tuple(rest)


def placed(word: str) -> str:
    for place, own in PLACES.items():
        word = re.sub(rf"(?<![A-Z_]){re.escape(place)}(?![A-Z_])", own, word)
    return word


def check_neuro(words: list[str], cwd: Path) -> None:
    verb, arguments = (words[0], words[1:]) if words else ("--help", [])
    if verb in ("--help", "--version"):
        return
    if verb not in MODULES:
        raise StaleError(f"neuro {verb}: no such verb")
    if (not arguments and verb in NEEDS_A_FOLDER) or tuple(words) in SECOND:
        return  # a verb that is only named
    if (verb, *arguments[:1]) in SECOND:
        SECOND[(verb, arguments[0])](arguments[1:], cwd)
    elif (config_folder() / f"{verb}.yaml").exists():
        check_hydra(verb, arguments, cwd)
    else:
        PLAIN.get(verb, check_refused)(verb, arguments, cwd)


def check_hydra(verb: str, arguments: list[str], cwd: Path) -> None:
    """A verb that Hydra runs: each job's config is composed, and the parts that it names are made."""
    if verb == "bench" and arguments and "=" not in arguments[0] and not arguments[0].startswith("-"):
        arguments = [f"what={arguments[0]}", *arguments[1:]]
    if "role=model" in arguments and not any(word.startswith("pool=") for word in arguments):
        arguments = [*arguments, "pool=broker"]
    (cwd / "my_package.py").write_text(NET)
    sys.modules.pop("my_package", None)  # another test's
    importlib.invalidate_caches()
    for word in arguments:
        if word == "table=FILE.yaml":
            (cwd / "FILE.yaml").write_text((config_folder() / "table" / "nes_table_1.yaml").read_text())
        if word.startswith("model=") and word.endswith(".yaml"):
            file = cwd / word.removeprefix("model=")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(BEST)
    arguments = without_outside(arguments)
    if "options" in "".join(arguments):
        folder_of_options(cwd)
    command = checked(verb, arguments)
    for job in jobs_of([text for text in command.overrides if text != f"hydra.job.name={verb}"]):
        node = composition.compose_choices(command.tree, job)
        parts = {str(key): node[key] for key in node if key != "hydra"}
        check_config(verb, with_members({key: plain(part) for key, part in parts.items()}))


def plain(part: Any) -> Any:
    return OmegaConf.to_container(part, resolve=True) if OmegaConf.is_config(part) else part


def without_outside(arguments: list[str]) -> list[str]:
    """The arguments less those of sweepers and launchers that come with an extra and are not here."""
    for kind, options in composition.IN_EXTRA.items():
        for option in options:
            chosen = f"hydra/{kind}={option}"
            if chosen in arguments and importlib.util.find_spec(f"hydra_plugins.hydra_{option}_{kind}") is None:
                arguments = [word for word in arguments if not word.startswith((f"hydra/{kind}=", f"hydra.{kind}."))]
    return arguments


def jobs_of(texts: list[str]) -> list[list[str]]:
    """The overrides of each job of a sweep; one list where nothing is swept."""
    parser = OverridesParser.create()
    choices = []
    for text in texts:
        override = parser.parse_override(text)
        if override.is_interval_sweep():  # of a sweeper that draws: one value of it
            choices.append([f"{override.get_key_element()}={override.value().start}"])
        elif override.is_sweep_override():
            choices.append([f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()])
        else:
            choices.append([text])
    jobs = [list(job) for job in product(*choices)]
    assert len(jobs) <= MOST_JOBS, f"a sweep of {len(jobs)} jobs: too long for a page"
    return jobs


def check_config(verb: str, config: dict[str, Any]) -> None:
    """What a run would refuse before it reads any data."""
    if verb == "search":
        if config["role"] in ("all", "model"):
            check_search(config)
        return
    if verb == "reproduce" and config["tables"]:
        entries_of(config)
        return
    if "task" not in config or "algo" not in config:
        return
    options = Options(config)
    config = options.plain
    if verb != "scale":  # where ranks are several
        RunConfig.of(config)
    with torch.device("meta"):  # no numbers: some networks have 50 million
        make(config, "model", nn.Module)
    for group, kind in (("sampler", Estimator), ("distribution", Method), ("fabric", Network), ("logger", Logger)):
        make(config, group, kind)
    make(config, "task", Task)
    if verb == "evolve":
        check_cluster(config)
        return
    if options.is_ensemble:
        kinds_of(config)
    if verb == "train":
        if (config["ranks"] or 1) > 1 and isinstance(options.method, (Local, SingleGraph)):
            raise StaleError(f"neuro train ranks={config['ranks']}: its distribution is for one process")
        options.sampler.check(config["population"])
        gradient = getattr(options.algo, "uses_gradient", False)
        options.task.refuse(layout=config["layout"], precision=config["precision"], gradient=gradient)
    elif verb == "scale":
        study_of(config)
    elif config["what"] not in {*KINDS, "brokers"}:
        raise StaleError(f"neuro bench {config['what']}: no such measurement")


def check_resume(verb: str, arguments: list[str], cwd: Path) -> None:
    run, *overrides = arguments
    allowed = {*RESUME_KEYS, *RESUME_GROUPS, "checkpoint", "trust"}
    if "/search/" in run:
        allowed = {*SEARCH_RESUME_KEYS, "pool", "logger", "trust"}
    for text in overrides:
        key, _ = parse_plain(text)
        if key not in allowed:
            raise StaleError(f"neuro resume {text}: a resumed run keeps it")


def check_refused(verb: str, arguments: list[str], cwd: Path) -> None:
    """A verb that looks at folders: it must complain of nothing but that the folder is not there."""
    done = neuro_inside(verb, *arguments, cwd=cwd)
    folder = [word for word in arguments if "=" not in word and not word.startswith("-")][-1]
    if done.returncode != 2 or folder not in done.stderr or "usage" in done.stderr:
        raise StaleError(f"neuro {verb} {' '.join(arguments)}: {done.stderr.strip()}")


def check_completion(verb: str, arguments: list[str], cwd: Path) -> None:
    if neuro_inside(verb, *arguments, cwd=cwd).returncode:
        raise StaleError(f"neuro {verb} {' '.join(arguments)}: no such shell")


def check_nothing(verb: str, arguments: list[str], cwd: Path) -> None:
    if arguments:
        raise StaleError(f"neuro {verb} takes no arguments")


def check_export(arguments: list[str], cwd: Path) -> None:
    check_refused("evolve", ["export", *arguments], cwd)


def check_plot(arguments: list[str], cwd: Path) -> None:
    done = neuro_inside("search", "plot", *arguments, cwd=cwd)
    if done.returncode != 2 or arguments[1] not in done.stderr:
        raise StaleError(f"neuro search plot: {done.stderr.strip()}")


def check_status(arguments: list[str], cwd: Path) -> None:
    """Of a port where nobody listens: it must find out just that."""
    done = neuro_inside("search", "status", "127.0.0.1:1", *arguments, cwd=cwd)
    if done.returncode not in (1, 2) or "127.0.0.1:1" not in done.stdout + done.stderr:
        raise StaleError(f"neuro search status: {done.stderr.strip()}")


def check_certificates(arguments: list[str], cwd: Path) -> None:
    pytest.importorskip("cryptography")
    done = neuro_inside("search", "certs", *[word.replace("FOLDER", "certificates") for word in arguments], cwd=cwd)
    if done.returncode:
        raise StaleError(f"neuro search certs: {done.stderr.strip()}")


def check_pip(words: list[str], cwd: Path) -> None:
    """Extras are those of the project."""
    known = set(PROJECT["optional-dependencies"])
    for word in words[1:]:
        extras = re.fullmatch(r"(?:\.|neuro-es)\[(.+)\]", word)
        if extras and not set(extras[1].split(",")) <= known:
            raise StaleError(f"pip install {word}: an extra is not there")
        names = {re.split(r"[\[<>=]", need)[0] for need in PROJECT["dependencies"]} | {PROJECT["name"], "-e", "."}
        if not extras and word not in names:
            raise StaleError(f"pip install {word}: nothing of the project's")


def check_make(words: list[str], cwd: Path) -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    if not set(words) <= targets:
        raise StaleError(f"make {' '.join(words)}: no such target")


def check_python(words: list[str], cwd: Path) -> None:
    if words[:1] == ["-m"] and words[1] == "venv":
        return
    if words[:2] == ["-m", "neuro_cli"]:
        check_neuro(words[2:], cwd)
        return
    check_script(words[0], words[1:])
    overrides = [word for word in words[1:] if "=" in word and not word.startswith("-")]
    if overrides:
        check_hydra("evolve", overrides, cwd)


def check_script(path: str, words: list[str]) -> None:
    """A script of ours that knows the flags and the words it is given."""
    if not (ROOT / path).is_file():
        raise StaleError(f"{path}: no such script")
    source = (ROOT / path).read_text()
    for word in words:
        if (word.startswith("--") or word.isalpha()) and word not in source:
            raise StaleError(f"{path} {word}: unknown to the script")


def check_pytest(words: list[str], cwd: Path) -> None:
    missing = [word for word in words if word.startswith("tests") and not (ROOT / word).exists()]
    if missing:
        raise StaleError(f"pytest {missing[0]}: not there")


def check_export_of_shell(words: list[str], cwd: Path) -> None:
    """Variables of ours must be known to the code."""
    source = "".join(path.read_text() for path in (ROOT / "neuro_cli").rglob("*.py"))
    for name in re.findall(r"\b([A-Z][A-Z_0-9]+)=", " ".join(words)):
        if name.startswith("NEURO_") and name not in source:
            raise StaleError(f"export {name}: unknown to neuro")


def check_eval(words: list[str], cwd: Path) -> None:
    path, word = words[0].strip("$()").split()
    check_script(path, [word])


def check_foreign(words: list[str], cwd: Path) -> None:
    """Another system's program, of which only files of ours that it is given can be checked."""
    for word in words:
        if word.startswith("scripts") and not (ROOT / word).exists():
            raise StaleError(f"{word}: not there")


PLAIN = {"completion": check_completion, "resume": check_resume, "doctor": check_nothing}
SECOND = {
    ("evolve", "export"): check_export,
    ("search", "plot"): check_plot,
    ("search", "status"): check_status,
    ("search", "certs"): check_certificates,
}
OTHERS = {
    "pip": check_pip,
    "make": check_make,
    "python": check_python,
    "python3": check_python,
    "pytest": check_pytest,
    "export": check_export_of_shell,
    "eval": check_eval,
    "npm": check_foreign,
    "pre-commit": check_foreign,
    "node": check_foreign,
}
__all__ = ["StaleError", "UserError", "check"]
