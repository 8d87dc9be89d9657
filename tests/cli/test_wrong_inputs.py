"""Wrong commands end with one line ``neuro: error: ...``, exit code 2 and no trace: no file, no folder, no process."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from PIL import Image
from support.inside import neuro_inside, well
from wrong_inputs import KEYS, NOT_NUMBERS, NUMBERS, RUNS, WRONG, WRONG_AT_ONCE

HARMLESS = ("seed=3", "generations=2", "+algo.optimizer.eps=1e-6", "checkpoint.every=7", "-q")
HYDRAS = ("train", "evolve", "search", "scale", "bench")
# what a shell can pass on: any text but NUL, bytes of other encodings as Python takes them
LETTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"]) | st.characters(
    min_codepoint=0xDC80, max_codepoint=0xDCFF, categories=["Cs"]
)
QUICK = slice(5, None, 30)  # of the commands that cost tenths of a second each
LATER = [case for number, case in enumerate(WRONG) if number not in range(*QUICK.indices(len(WRONG)))]
MANY = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
SOME = settings(MANY, max_examples=40)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """The folder in which the commands are typed, with what they name."""
    folder = tmp_path_factory.mktemp("typed")
    Image.new("L", (28, 28)).save(folder / "digit.png")
    Image.new("I;16", (8, 8)).save(folder / "deep.png")
    for name in ("text.txt", "text.png"):
        (folder / name).write_text("some text")
    (folder / "broken.yaml").write_text("a: [b")
    (folder / "list.yaml").write_text("- a\n")
    (folder / "empty").mkdir()
    (folder / "options" / "algo").mkdir(parents=True)
    (folder / "options" / "algo" / "steep.yaml").write_text("_target_: my.Steep\n")
    (folder / "swept").mkdir()
    (folder / "swept" / "multirun.yaml").write_text("hydra: {}\n")
    small = ("population=4", "batch_size=8", "threads=1", "generations=1")
    well(neuro_inside("train", *small, "hydra.run.dir=run", cwd=folder))
    return folder


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything in ``folder``, with times and bytes of files."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, b"" if path.is_dir() else path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.name != ".lock"  # which a command takes and drops
    }


def children() -> set[str]:
    """Processes that this one has started and that are still there."""
    return {pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()}


def refused(place: Path, arguments: tuple[str, ...]) -> str:
    """The line that answers a wrong command, which leaves nothing."""
    before, processes = contents(place), children()
    done = neuro_inside(*arguments, cwd=place, NEURO_CLUSTER_SECRET="long enough, and known")
    assert done.returncode == 2, (arguments, done)
    assert re.fullmatch(r"neuro: error: [^\n]+\n", done.stderr), (arguments, done.stderr)
    assert done.stderr[:-1].isprintable(), (arguments, done.stderr)
    assert done.stdout == "", (arguments, done.stdout)
    assert contents(place) == before, arguments
    assert children() <= processes, arguments
    return done.stderr


def assert_answered(place: Path, arguments: tuple[str, ...], parts: str) -> None:
    line = refused(place, arguments)
    assert [part for part in parts.split(" ... ") if part not in line] == [], line


def named(case: tuple[tuple[str, ...], str]) -> str:
    return " ".join(case[0])[:60].encode("unicode_escape").decode()


@pytest.mark.parametrize("case", [*WRONG_AT_ONCE, *WRONG[QUICK]], ids=named)
def test_a_wrong_command_is_answered_by_one_line(place, case):
    assert_answered(place, *case)


@pytest.mark.slow
@pytest.mark.parametrize("case", LATER, ids=named)
def test_each_other_wrong_command_is_answered_by_one_line(place, case):
    assert_answered(place, *case)


@st.composite
def disguised(draw: st.DrawFn) -> tuple[tuple[str, ...], str]:
    """A wrong command among arguments that are right, in any order."""
    (verb, *rest), word = draw(st.sampled_from([case for case in (*WRONG_AT_ONCE, *WRONG) if case[0][0] == "train"]))
    flags = [text for text in rest if text.startswith("-")]
    if flags or {"algo", "seed", "checkpoint"} & {text.lstrip("+~").partition("=")[0].partition(".")[0] for text in rest}:
        return (verb, "-q", *rest), word
    more = draw(st.lists(st.sampled_from(HARMLESS), unique=True))
    return (verb, *draw(st.permutations([*rest, *more]))), word


@pytest.mark.slow
@SOME
@given(disguised())
def test_right_arguments_beside_a_wrong_one_change_nothing(place, command):
    assert_answered(place, *command)


VALUES = st.sampled_from(NOT_NUMBERS) | st.text(LETTERS, max_size=40) | st.text("${}[]:,'\"\\\n =()~+@.", max_size=12)


@pytest.mark.slow
@MANY
@given(st.sampled_from(KEYS), st.text(LETTERS, min_size=1, max_size=30))
def test_any_text_in_place_of_a_key_or_an_option(place, before, text):
    assume(not text.isascii() or not text.isidentifier())
    refused(place, (*before[:-1], before[-1] + text))


@pytest.mark.slow
@MANY
@given(st.sampled_from(NUMBERS), VALUES)
def test_any_text_in_place_of_a_number(place, key, value):
    assume(not re.fullmatch(r"\s*\+?[\d_]+\s*", value))  # a number after all
    assert key in refused(place, ("train", f"{key}={value}"))


@pytest.mark.slow
@MANY
@given(st.sampled_from(RUNS), st.text(LETTERS, max_size=300))
def test_any_text_in_place_of_a_folder(place, command, text):
    assume(not text.startswith("-") and "=" not in text)
    with suppress(OSError):  # too long for a file's name
        assume(not (place / text).exists())
    refused(place, (*command, text))
