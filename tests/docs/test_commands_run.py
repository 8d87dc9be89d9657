"""Commands of the pages run, at a small size: two of the five examples; slow: all others that can."""

import re
import shutil
from pathlib import Path

import pytest
import yaml
from doc_checks import placed, write_files
from doc_commands import Command, all_commands
from support.inside import neuro_inside
from support.worlds import needs_mpi, neuro
from test_commands import NOT_RUN, of_the_page

from neuro_cli.core.files import config_folder
from neuro_cli.fabric.emulation.netns import missing_rights

IMAGES = ("generations=2", "population=8", "batch_size=16", "threads=1", "evaluate.every=2")
EPISODES = ("task.max_steps=20", "task.evaluation_episodes=2", "task.environments=4")
SMALLER = {
    "train": IMAGES,
    "evolve": ("generations=3", "population=4", "batch_size=16", "threads=1", "evaluate.every=3"),
    "search": ("trainings=2", "training.epochs=1", "pool.workers=1", "training.batch_size=64"),
}
PLAYS = ("lunar_lander", "half_cheetah", "hopper", "ant", "bipedal_walker")


def on(*tasks: str) -> set[str]:
    """Words of a command that choose one of the tasks, or an experiment on one."""
    experiments = sorted((config_folder() / "experiment").glob("*.yaml"))
    defaults = {file.stem: yaml.safe_load(file.read_text()).get("defaults", []) for file in experiments}
    names = [name for name, parts in defaults.items() if any({"override /task": task} in parts for task in tasks)]
    return {f"task={task}" for task in tasks} | {f"{plus}experiment={name}" for name in names for plus in ("", "+")}


def smaller(words: tuple[str, ...], folder: str, data: Path | None) -> list[str]:
    """A command of neuro with sizes of its own: sizes of the page give way. ``data``: the folder of MNIST."""
    verb, *rest = words
    chosen = {word.lstrip("+").partition("=")[0]: word.partition("=")[2] for word in rest}
    sizes = [*SMALLER[verb], f"hydra.{'sweep' if '-m' in rest else 'run'}.dir={folder}"]
    sizes += EPISODES if chosen.get("task", chosen.get("experiment")) in PLAYS else ()
    sizes += [f"task.root={data}"] if data is not None else []
    sizes += ["ranks=2"] if "ranks" in chosen else []
    keys = {size.partition("=")[0] for size in sizes} | {"task.download", "hydra.run.dir", "hydra.sweep.dir"}
    kept = [placed(word) for word in rest if word.lstrip("+").partition("=")[0] not in keys]
    return [verb, *kept, *sizes]


def arguments_of(command: Command) -> tuple[str, ...]:
    """What follows ``neuro``."""
    return command.words[command.words.index("neuro") + 1 :]


RUNS = [
    command
    for command in all_commands()
    if "neuro" in command.words
    and arguments_of(command)[0] in SMALLER
    and not {"export", "plot", "status", "certs", *re.findall(r"\S*trust=\S*", command.text)} & set(command.words)
    and not of_the_page(command)
]
NOT_HERE = {pattern: reason for pattern, reason in NOT_RUN.items() if pattern != "task.download=true"}
NOT_HERE["cluster.from_run"] = "needs what an earlier command leaves: tests/evolve"


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("command", RUNS, ids=str)
def test_a_command_runs(command, tmp_path, request):
    text, words = " ".join(command.words), arguments_of(command)
    reason = next((NOT_HERE[pattern] for pattern in NOT_HERE if pattern in text), "")
    if "fabric.emulate=true" in words:
        reason = reason or missing_rights()
    if on("cifar10", "fashion_mnist") & set(words):
        reason = "downloads a data set"
    if reason:
        pytest.skip(reason)
    data = request.getfixturevalue("real_data") if on("mnist") & set(words) else None
    write_files([placed(word) for word in words], tmp_path)
    if {"--help", "--cfg"} & set(words):
        done = neuro_inside(*words, cwd=tmp_path)
    else:
        done = neuro(*smaller(words, "run", data), cwd=tmp_path, ranks=2 if command.words[0] == "mpiexec" else 0)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
