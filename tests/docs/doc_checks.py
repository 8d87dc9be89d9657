"""Checks that a command of the pages would work: its verb, options and keys exist, and the parts of its config can be made.

Nothing is trained. Raises ``UserError`` or ``StaleError`` for a command that a reader would copy in vain.
"""

import importlib.util
import re
import shutil
import sys
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import torch
from doc_commands import ROOT
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from support.composing import composed_of
from support.inside import neuro_inside
from torch import nn

from neuro_cli.cli.options.groups import with_members
from neuro_cli.cli.overrides.check import IN_EXTRA, checked
from neuro_cli.cli.overrides.grammar import parse_plain
from neuro_cli.cli.registry import SHARED, listed
from neuro_cli.cli.verbs.bench import KINDS
from neuro_cli.cli.verbs.reproduce import entries_of
from neuro_cli.cli.verbs.resume import RESUME_GROUPS, RESUME_KEYS, SEARCH_RESUME_KEYS
from neuro_cli.core.files import config_folder
from neuro_cli.distribution.ensemble.single_graph import SingleGraph
from neuro_cli.distribution.local import Local
from neuro_cli.evolve.config import ClusterConfig
from neuro_cli.factory.instantiate import make
from neuro_cli.runner.config import RunConfig, section
from neuro_cli.runner.ensemble.members import kinds_of
from neuro_cli.runner.options import Options
from neuro_cli.scaling.plan import study_of
from neuro_cli.search.command import check as check_search

# what a reader puts something of their own in the place of
PLACES = {"<stamp>": "stamp", "RUN": "outputs/train/stamp", "SWEEP": "outputs/sweep", "HOST:PORT": "host:7700"}
LAUNCHERS = {
    "mpiexec": ("-n", "--oversubscribe"),
    "srun": ("--ntasks-per-node", "--gpus-per-task", "--mpi"),
    "torchrun": ("--nproc-per-node", "--nnodes", "--rdzv-backend", "--rdzv-endpoint", "--max-restarts", "-m"),
    "accelerate": (),
    "launch": ("--multi-gpu", "--num-processes", "-m"),
    "exec": (),
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# what a reader has in the current folder: a package, a network that a search left, a folder of options
READER = Path(__file__).parent / "reader"


class StaleError(Exception):
    """A command that names something that does not exist."""


def check(words: tuple[str, ...], cwd: Path) -> None:
    """Check one command line in the working directory ``cwd``, which is the process's too."""
    while words and (re.match(r"[A-Z_0-9]+=", words[0]) or words[0] in LAUNCHERS):
        words = words[1:] if words[0] not in LAUNCHERS else behind_launcher(words)
    if not words:
        return
    program, rest = words[0].rsplit("/", 1)[-1], list(words[1:])
    if words[:2] == ("sh", "-c"):
        check(tuple(rest[1].split()), cwd)
    elif program in ("neuro", "neuro_cli"):
        check_neuro([placed(word) for word in rest], cwd)
    elif program == "pip":
        check_pip(rest)
    elif program == "make":
        targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        require(set(rest) <= targets, words, "no such target")
    elif program in ("python", "pytest", "node", "npm", "eval", "export", "pre-commit") or words[0].startswith("scripts/"):
        check_paths(words)
    else:
        raise StaleError(f"{words[0]}: no program that the pages may use")


def require(holds: bool, words: Any, reason: str) -> None:
    if not holds:
        raise StaleError(f"{' '.join(words)}: {reason}")


def check_paths(words: tuple[str, ...]) -> None:
    """Another program: files of ours exist, a script knows its flags, variables of ours are known to the code."""
    text = " ".join(words)
    files = re.findall(r"(?<![\w/.])(?:scripts|docs|tests)/[\w./]+", text)
    require(all((ROOT / file).exists() for file in files), words, "a file does not exist")
    scripts = "".join((ROOT / file).read_text() for file in files if file.startswith("scripts") and (ROOT / file).is_file())
    known = scripts + "".join(path.read_text() for path in (ROOT / "neuro_cli").rglob("*.py")) if "NEURO_" in text else scripts
    flags = re.findall(r"(?<=\s)--\w[\w-]*", text) if files and files[0].startswith("scripts") else []
    verbs = re.findall(r"slurm_local\.sh (\w+)", text)
    names = (*flags, *verbs, *re.findall(r"NEURO_\w+", text))
    require(all(name in known for name in names), words, "an unknown flag or variable")


def behind_launcher(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the program that a launcher starts. Raises StaleError for an unknown option."""
    end = next((place for place, word in enumerate(words[1:], 1) if not word.startswith("-") and not word.isdigit()), len(words))
    options = {word.partition("=")[0] for word in words[1:end] if word.startswith("-")}
    require(options <= set(LAUNCHERS[words[0]]), words, "an option that the pages do not have")
    return words[end:]


def placed(word: str) -> str:
    """Return a word with its placeholders replaced."""
    for place, own in PLACES.items():
        word = re.sub(rf"(?<![A-Z_]){re.escape(place)}(?![A-Z_])", own, word)
    return word


def check_neuro(words: list[str], cwd: Path) -> None:
    """Check a command of neuro: of a verb of Hydra by its config, of another by what it complains of."""
    verb, arguments = (words[0], words[1:]) if words else ("--help", [])
    if verb in ("--help", "--version"):
        return
    require(verb in (*listed(), *SHARED), ("neuro", verb), "no such verb")
    second = (verb, *arguments[:1])
    if second in (("evolve", "export"), ("search", "status"), ("search", "certs")):
        check_second(second, arguments[1:], cwd)
    elif (config_folder() / f"{verb}.yaml").exists():
        check_hydra(verb, arguments, cwd)
    elif verb == "resume" and arguments:
        check_resume(arguments)
    elif verb == "completion":
        require(neuro_inside(verb, *arguments, cwd=cwd).returncode == 0, words, "no such shell")
    elif verb == "doctor":
        require(not arguments, words, "takes no arguments")
    elif arguments:
        check_refused(words, arguments, cwd)


def check_second(second: tuple[str, ...], arguments: list[str], cwd: Path) -> None:
    """A command below a verb; with nothing to work on it must say just that."""
    if second == ("search", "certs"):
        arguments = [word.replace("FOLDER", "certificates") for word in arguments]
        require(neuro_inside(*second, *arguments, cwd=cwd).returncode == 0, second, "refused")
    elif arguments:
        check_refused([*second, *arguments], arguments, cwd)


def check_refused(words: list[str], arguments: list[str], cwd: Path) -> None:
    """A verb that looks at folders must complain of nothing but that the folder does not exist."""
    done = neuro_inside(*words, cwd=cwd)
    named = any(word in done.stderr for word in arguments if "=" not in word and not word.startswith("-"))
    named &= done.returncode == 2 and "usage" not in done.stderr
    require(named, ("neuro", *words), done.stderr.strip())


def check_resume(arguments: list[str]) -> None:
    run, *overrides = arguments
    allowed = {*RESUME_KEYS, *RESUME_GROUPS, "checkpoint", "trust"}
    if "/search/" in run:
        allowed = {*SEARCH_RESUME_KEYS, "pool", "logger", "trust"}
    for text in overrides:
        require(parse_plain(text)[0] in allowed, ("neuro resume", text), "a resumed run keeps it")


def check_hydra(verb: str, arguments: list[str], cwd: Path) -> None:
    """A verb that Hydra runs: each job's config is composed, and the parts that it names are made."""
    if verb == "bench" and arguments and "=" not in arguments[0] and not arguments[0].startswith("-"):
        arguments = [f"what={arguments[0]}", *arguments[1:]]
    if "role=model" in arguments and not any(word.startswith("pool=") for word in arguments):
        arguments = [*arguments, "pool=broker"]
    write_files(arguments, cwd)
    arguments = without_outside(arguments)
    command = checked(verb, arguments)
    jobs = jobs_of([text for text in command.overrides if text != f"hydra.job.name={verb}"])
    for job in jobs:
        node = command.composed if len(jobs) == 1 else composed_of(command.tree, job)
        parts = {str(key): node[key] for key in node if key != "hydra"}
        check_config(verb, with_members({key: plain(part) for key, part in parts.items()}))


def write_files(arguments: list[str], cwd: Path) -> None:
    """Write what a command names and a reader has."""
    shutil.copytree(READER, cwd, dirs_exist_ok=True)
    sys.modules.pop("my_package", None)  # another test's
    importlib.invalidate_caches()
    for word in arguments:
        if word == "table=FILE.yaml":
            shutil.copy(config_folder() / "table" / "nes_table_1.yaml", cwd / "FILE.yaml")
        if word.startswith("model=") and word.endswith(".yaml"):
            file = cwd / word.removeprefix("model=")
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(READER / "best_1.yaml", file)


def plain(part: Any) -> Any:
    return OmegaConf.to_container(part, resolve=True) if OmegaConf.is_config(part) else part


def without_outside(arguments: list[str]) -> list[str]:
    """Return the arguments less those of sweepers, launchers and simulators that come with an extra and are not installed."""
    for option in IN_EXTRA:
        if f"hydra/launcher={option}" in arguments and importlib.util.find_spec(f"hydra_plugins.hydra_{option}_launcher") is None:
            arguments = [word for word in arguments if not word.startswith(("hydra/launcher=", "hydra.launcher."))]
    if importlib.util.find_spec("envpool") is None:
        arguments = [word for word in arguments if word != "task.simulator=envpool"]
    return arguments


def jobs_of(texts: list[str]) -> list[list[str]]:
    """Return the overrides of each job of a sweep; one list where nothing is swept."""
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
    return [list(job) for job in product(*choices)]


def check_config(verb: str, config: dict[str, Any]) -> None:
    """Check what a run would refuse before it reads any data."""
    if verb == "search":
        if config["role"] in ("all", "model"):
            check_search(config)
        return
    if verb == "reproduce" and config["tables"]:
        entries_of(config["size"], config["tables"], config["with"])
    if "task" not in config or "algo" not in config:
        return
    options = Options(config)
    config = options.plain
    if verb != "scale":  # where ranks are several
        RunConfig.of(config)
    with torch.device("meta"):  # no numbers: some networks have 50 million
        make(config, "model", nn.Module)
    for group in ("sampler", "distribution", "fabric", "logger", "task"):
        make(config, group, object)
    if verb == "evolve":
        section(ClusterConfig, config["cluster"], "cluster.")
    elif options.is_ensemble:
        kinds_of(config)
    if verb == "train":
        alone = (config["ranks"] or 1) > 1 and isinstance(options.method, (Local, SingleGraph))
        require(not alone, ("neuro train", f"ranks={config['ranks']}"), "its distribution is for one process")
        options.sampler.check(config["population"])
        gradient = getattr(options.algo, "uses_gradient", False)
        options.task.refuse(layout=config["layout"], precision=config["precision"], gradient=gradient)
    elif verb == "scale":
        study_of(options)
    elif verb == "bench":
        require(config["what"] in KINDS, ("neuro bench", config["what"]), "no such measurement")


def check_pip(words: list[str]) -> None:
    """Extras are those of the project."""
    needs = {re.split(r"[\[<>=]", need)[0] for need in PROJECT["dependencies"]} | {PROJECT["name"], "-e", "."}
    for word in words[1:]:
        extras = re.fullmatch(r"(?:\.|neuro-es)\[(.+)\]", word)
        known = set(extras[1].split(",")) <= set(PROJECT["optional-dependencies"]) if extras else word in needs
        require(known, ("pip", *words), "an extra or a package that is not the project's")
