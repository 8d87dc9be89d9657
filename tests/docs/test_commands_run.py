"""Commands of the pages run, at a small size: the five examples and the first steps; slow: all others that can."""

import re
import runpy
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from doc_checks import BEST, NET, folder_of_options, placed
from doc_commands import ROOT, Command, all_commands, commands_of, section_of
from PIL import Image
from support.inside import neuro_inside
from support.worlds import clean_environment, needs_mpi, neuro, wait_for_rows
from test_commands import NOT_RUN, of_the_page

from neuro_cli.core.files import config_folder
from neuro_cli.fabric.emulation.kernel import missing_rights

COMMAND_LINE = (ROOT / "docs" / "command_line.md").read_text()
IMAGES = ("generations=2", "population=8", "batch_size=16", "threads=1", "evaluate.every=2")
EPISODES = ("task.max_steps=20", "task.evaluation_episodes=2", "task.environments=4")
SMALLER = {
    "train": IMAGES,
    "evolve": ("generations=3", "population=4", "batch_size=16", "threads=1", "evaluate.every=3"),
    "search": ("trainings=2", "training.epochs=1", "pool.workers=1", "training.batch_size=64"),
}
PLAYS = ("lunar_lander", "half_cheetah", "hopper", "ant", "bipedal_walker")


def experiments_on(task: str) -> list[str]:
    """Experiments that choose a task in their defaults."""
    files = sorted((config_folder() / "experiment").glob("*.yaml"))
    return [file.stem for file in files if {"override /task": task} in yaml.safe_load(file.read_text()).get("defaults", [])]


LEARNS_MNIST = ("mnist", *experiments_on("mnist"))  # tasks and experiments
DOWNLOADS = [f"task={task}" for task in ("cifar10", "fashion_mnist")]
DOWNLOADS += [f"+experiment={name}" for task in ("cifar10", "fashion_mnist") for name in experiments_on(task)]


def smaller(words: tuple[str, ...], folder: str, data: Path | None) -> list[str]:
    """A command of neuro with sizes of its own: sizes of the page give way. ``data``: where MNIST lies."""
    verb, *rest = words
    chosen = {word.lstrip("+").partition("=")[0]: word.partition("=")[2] for word in rest}
    sizes = list(SMALLER[verb])
    if chosen.get("task", chosen.get("experiment")) in PLAYS:
        sizes += EPISODES
    if data is not None:
        sizes.append(f"task.root={data}")
    sizes.append(f"hydra.{'sweep' if '-m' in rest else 'run'}.dir={folder}")
    if "ranks" in chosen:
        sizes.append("ranks=2")
    keys = {size.partition("=")[0] for size in sizes} | {"task.download", "hydra.run.dir", "hydra.sweep.dir"}
    kept = [placed(word) for word in rest if word.lstrip("+").partition("=")[0] not in keys]
    return [verb, *kept, *sizes]


def neuro_commands(text: str) -> list[Command]:
    return [command for command in commands_of("command_line.md", text) if "neuro" in command.words]


def arguments_of(command: Command) -> tuple[str, ...]:
    """What follows ``neuro``."""
    return command.words[command.words.index("neuro") + 1 :]


BLOCK = neuro_commands(section_of(COMMAND_LINE, "Five examples"))


def test_there_are_five_examples():
    assert len(BLOCK) == 5


@pytest.mark.parametrize("command", BLOCK[:2], ids=str)
def test_an_example_runs(command, tmp_path):
    done = neuro_inside(*smaller(arguments_of(command), "run", None), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "summary.json").exists()


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("command", BLOCK[2:], ids=str)
def test_an_example_of_several_processes_runs(command, tmp_path):
    ranks = int(command.words[2]) if command.words[0] == "mpiexec" else 0
    done = neuro(*smaller(arguments_of(command), "run", None), cwd=tmp_path, ranks=ranks)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "summary.json").exists()


def test_the_first_steps(tmp_path, monkeypatch):
    """Train, interrupt, resume, sweep, report, evaluate, load: the page's own lines, with the sizes of ``SMALLER``."""
    first, resume, sweep, report, evaluate = neuro_commands(section_of(COMMAND_LINE, "First steps"))[:5]
    sizes = [size for size in IMAGES if not size.startswith("generations")]
    environment = clean_environment() | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-m", "neuro_cli", *first.words[1:], *sizes], cwd=tmp_path, env=environment)
    try:
        wait_for_rows(tmp_path / "outputs" / "first", 3, process)
        process.send_signal(signal.SIGINT)
        assert process.wait(240) == 0
    finally:
        process.kill()
    rows = (tmp_path / "outputs" / "first" / "metrics.csv").read_text().count("\n") - 1
    assert 3 <= rows < 400
    for command in (resume, sweep, report, evaluate):
        more = [f"generations={rows + 2}"] if command is resume else list(IMAGES) if command is sweep else []
        done = neuro_inside(*command.words[1:], *more, cwd=tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    assert (tmp_path / "outputs" / "first" / "metrics.csv").read_text().count("\n") == rows + 3
    assert (tmp_path / "outputs" / "sweep" / "sweep.csv").read_text().count("\n") == 5
    load = re.search(r"```python\n(.*?)```", section_of(COMMAND_LINE, "First steps"), re.DOTALL)
    (tmp_path / "load.py").write_text(load[1])  # type: ignore[index]
    monkeypatch.chdir(tmp_path)
    model = runpy.run_path("load.py")["model"]
    assert not model.training


OTHERS = [
    command
    for command in all_commands()
    if "neuro" in command.words
    and arguments_of(command)[:1] in (("train",), ("evolve",), ("search",))
    and len(arguments_of(command)) > 1
    and arguments_of(command)[1] not in ("export", "plot", "status", "certs")
    and not of_the_page(command)
    and command.words not in [example.words for example in BLOCK]
]
KEEP_OUT = [pattern for pattern in NOT_RUN if pattern != "task.download=true"]


def images(folder: Path) -> None:
    """Ten classes of grey images, each of a brightness, in the layout of ``task=image_folder``."""
    for part, count in (("train", 12), ("test", 4)):
        for kind in range(10):
            place = folder / part / f"class{kind}"
            place.mkdir(parents=True)
            for number in range(count):
                Image.new("L", (16, 16), 20 * kind + number).save(place / f"{number}.png")


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("command", OTHERS, ids=str)
def test_a_command_runs(command, tmp_path, request):
    text = " ".join(command.words)
    reason = next((NOT_RUN[pattern] for pattern in KEEP_OUT if pattern in text), "")
    if reason or "cluster.from_run" in text:
        pytest.skip(reason or "needs what an earlier command leaves: tests/broker, tests/evolve")
    words = arguments_of(command)
    if "fabric.emulate=true" in words and missing_rights():
        pytest.skip(missing_rights())
    learns = any(f"{group}={name}" in text.split() for name in LEARNS_MNIST for group in ("task", "+experiment", "experiment"))
    if not set(DOWNLOADS).isdisjoint(words):
        pytest.skip("downloads a data set")
    data = request.getfixturevalue("real_data") if learns else None
    (tmp_path / "my_package.py").write_text(NET)
    best = tmp_path / "outputs" / "search" / "stamp" / "best"
    best.mkdir(parents=True)
    (best / "best_1.yaml").write_text(BEST)
    folder_of_options(tmp_path)
    if "task.root=FOLDER" in words:
        images(tmp_path / "FOLDER")
    if {"--help", "--cfg"} & set(words):
        done = neuro_inside(*words, cwd=tmp_path)
    else:
        done = neuro(*smaller(words, "run", data), cwd=tmp_path, ranks=2 if command.words[0] == "mpiexec" else 0)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(tmp_path / "run", ignore_errors=True)


def test_sizes_of_the_page_give_way():
    made = smaller(("train", "+experiment=lunar_lander", "population=200", "ranks=64", "task.download=true"), "run", None)
    assert made.count("population=8") == 1
    assert "population=200" not in made
    assert "ranks=64" not in made
    assert "task.download=true" not in made
    assert {"+experiment=lunar_lander", "ranks=2", "task.max_steps=20", "hydra.run.dir=run"} <= set(made)
