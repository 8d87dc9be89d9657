"""``--help`` says what the comments in conf/ say; ``neuro bench --help`` lists its kinds."""

from importlib import import_module
from pathlib import Path

import pytest
from support.inside import neuro_inside

from neuro_cli.cli.options.help import keys_of
from neuro_cli.cli.verbs.bench import KINDS


def test_help_has_the_comments_of_the_chosen_options(tmp_path: Path) -> None:
    done = neuro_inside("train", "algo=snes", "population=32", "--help", cwd=tmp_path)
    lines = {line.split(":")[0].strip(): line for line in done.stdout.splitlines() if "  # " in line}
    assert lines["population"].split() == ["population:", "32", "#", "members", "per", "generation"]
    assert "# float32 | bfloat16: type of members' forward passes" in lines["precision"]
    assert "# initial standard deviation of every parameter" in lines["sigma"]
    assert "# snes: " in lines["algo"]
    assert "${generations}" in done.stdout


def test_comments_are_found_by_their_keys(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "# what it is\n_target_: a.B\nlr: 0.1   # of steps\nstop:\n  at: null  # when\n  to: 'a#b'\nlist: [1, 2] # two\n"
    )
    assert keys_of(file) == {
        "": "what it is", "_target_": "", "lr": "of steps", "stop": "", "stop.at": "when", "stop.to": "", "list": "two"
    }  # fmt: skip


def test_bench_lists_its_kinds(tmp_path: Path) -> None:
    text = neuro_inside("bench", "--help", cwd=tmp_path).stdout
    for kind, (module, _) in KINDS.items():
        assert callable(getattr(import_module(f"neuro_cli.bench.{module}"), f"bench_{kind}"))
    assert all(f"\n  {kind} " in text for kind in KINDS)
    assert len(text.splitlines()) < 24


@pytest.mark.parametrize("verb", ["apply", "completion", "doctor", "evaluate", "export", "predict", "report", "resume"])
def test_usage_is_a_command_that_can_be_typed(verb: str, tmp_path: Path) -> None:
    done = neuro_inside(verb, "--help", cwd=tmp_path)
    first = done.stdout.splitlines()[0]
    assert first.startswith(f"usage: neuro {verb} ")
    assert first.count("[") == first.count("]")
