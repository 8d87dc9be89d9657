"""What a user sees: a header, -q and -v, and a shell that completes verbs, groups, options, keys and runs."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.inside import neuro_inside, one_line
from support.worlds import clean_environment

from neuro_cli.cli.registry import listed
from neuro_cli.cli.verbs.completion import SHELLS, candidates

TINY = ("generations=2", "population=4", "batch_size=8", "threads=1", "hydra.run.dir=run")


@pytest.fixture
def usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag of one test is not for the next."""
    monkeypatch.setenv("NEURO_VERBOSITY", "")


def test_a_header_says_what_runs_and_where(usual: None, tmp_path: Path) -> None:
    lines = neuro_inside("train", *TINY, cwd=tmp_path).stdout.splitlines()
    assert lines[0] == ("neuro: MNIST_10K on Digits; 11,274 parameters; OpenAIES, local, population 4; 1 rank of 1 thread, cpu")
    assert lines[1] == "neuro: folder run"
    assert lines[-1] == "neuro: results in run"


def test_quiet_and_verbose(usual: None, tmp_path: Path) -> None:
    silent = neuro_inside("train", "-q", *TINY, cwd=tmp_path)
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")
    shutil.rmtree(tmp_path / "run")
    loud = neuro_inside("train", *TINY, "--verbose", cwd=tmp_path)
    assert "neuro: checkpoint of generation 2: 00000002.safetensors" in loud.stderr
    assert "fitness" in loud.stdout
    assert one_line(neuro_inside("train", "-q", "population=0", cwd=tmp_path)).startswith("population=0: ")


def test_words_are_completed() -> None:
    assert candidates("neuro ") == sorted(listed())
    assert candidates("neuro ev") == ["evaluate", "evolve"]
    assert candidates("neuro train algo=s") == ["algo=sep_cma_es", "algo=sgd", "algo=snes"]
    assert candidates("neuro train +algo=sn") == ["+algo=snes"]
    assert candidates("neuro train algo=snes pop") == ["population="]
    assert candidates("neuro train checkpoint.") == ["checkpoint.best=", "checkpoint.every=", "checkpoint.keep="]
    assert candidates("neuro train task.f") == ["task.fitness="]
    assert candidates("neuro train task") == ["task.", "task="]
    assert candidates("neuro search st") == ["status", "strategy.", "strategy="]
    assert candidates("neuro nothing a") == []
    assert candidates("neuro train algo=sgd al") == ["algo."], "a typed key is not offered again"
    assert candidates("neuro train model=../") == []


def test_keys_after_a_run_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert candidates("neuro help ev") == ["evaluate", "evolve"]
    assert candidates("neuro help evolve ") == []
    assert candidates("neuro export a fi") == ["file="]
    assert candidates("neuro evaluate a t") == [
        "task.download=",
        "task.evaluation_episodes=",
        "task.files=",
        "task.root=",
        "threads=",
        "trust=",
    ]
    assert candidates("neuro resume a gen") == ["generations="]
    assert candidates("neuro report a b x") == ["x="]
    assert candidates("neuro predict a picture.p") == candidates("neuro predict a ") == [], "the shell completes files"


@pytest.mark.parametrize(
    ("typed", "word", "found"),
    [
        ("algo=snes", "algo.lea", ["algo.learning_rate="]),
        ("+algo=snes,pgpe", "algo.optim", []),
        ("task=gymnasium", "model.hi", ["model.hidden="]),
        ("task=gymnasium model=gru_policy", "model.act", []),
        ("+experiment=half_cheetah_4800", "algo.to", ["algo.top="]),
        ("+experiment=half_cheetah_4800 algo=snes", "algo.to", []),
        ("+experiment=mnist_98", "task.ro", ["task.root="]),
        ("algo=nothing seed=5", "algo.", []),
    ],
)
def test_keys_are_those_of_the_options_that_are_typed(typed: str, word: str, found: list[str]) -> None:
    assert candidates(f"neuro train {typed} {word}") == found


def test_runs_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert candidates("neuro resume ") == []
    (tmp_path / "outputs" / "train" / "2026-11-22_13-06-51-236223").mkdir(parents=True)
    assert candidates("neuro resume ") == ["latest", "outputs/train/2026-11-22_13-06-51-236223"]
    assert candidates("neuro resume outputs/t") == ["outputs/train/2026-11-22_13-06-51-236223"]


COMPLETE = f"""
neuro() {{ {sys.executable} -m neuro_cli "$@"; }}
eval "$(neuro completion bash)"
for COMP_LINE in 'neuro res' 'neuro train algo=sn' 'neuro train algo=snes algo.lea'; do
    COMP_POINT=${{#COMP_LINE}}
    _neuro
    printf '%s|' "${{COMPREPLY[@]}}"
done
"""


def test_bash_completes(tmp_path: Path) -> None:
    command = ["bash", "-c", COMPLETE]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=clean_environment(), timeout=120)
    assert (done.stdout, done.stderr) == ("resume |snes |algo.learning_rate=|", ""), "a complete word has a blank"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_one_of_its_shell(shell: str, tmp_path: Path) -> None:
    script = neuro_inside("completion", shell, cwd=tmp_path).stdout
    assert script == SHELLS[shell]
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")
    (tmp_path / "script").write_text(script)
    assert subprocess.run([shell, "-n", "script"], cwd=tmp_path, capture_output=True, timeout=60).returncode == 0


HELP = {
    "resume": "algo.non_finite", "evaluate": "task.root", "export": "checkpoint", "predict": "top=N",
    "evolve export": "from_start", "completion": "zsh", "search certs": "HOST", "search status": "--dead",
}  # fmt: skip


def test_help_names_the_keys_of_a_verb_that_hydra_does_not_compose(tmp_path: Path) -> None:
    for verb, word in HELP.items():
        done = neuro_inside(*verb.split(), "--help", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert word in done.stdout
