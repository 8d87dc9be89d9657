"""Bounds on the cost of a run folder's YAML, which takes nothing from the environment."""

import itertools
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from support.configs import composed
from support.inside import neuro_inside, one_line

from neuro_cli.core.errors import UserError
from neuro_cli.run_folder import saved_yaml
from neuro_cli.run_folder.config import saved_config

LAUGHS = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))
BOMBS = {
    "aliases": LAUGHS,
    "merged keys": LAUGHS.replace("[", "{x: [").replace("]", "]}"),
    "a cycle": "a: &a [*a]\n",
    "an alias of nothing": "a: *b\n",
    "depth": "a: " + "[" * 100_000,
    "nested maps": "a: " + "{b: " * 60 + "1" + "}" * 60,
    "many values": "a: [" + "1," * 100_000 + "1]",
    "many documents": "--- 1\n" * 100_000,
    "length": "a: " + "x" * 600_000,
    "interpolations": "a: " + "${" * 50_000,
    "braces": "a: ${oc.decode:" + "{" * 5000 + "}" * 5000 + "}",
    "an endless device": None,
}


def run_with(folder: Path, text: str | None) -> Path:
    run = folder / "run"
    (run / ".hydra").mkdir(parents=True)
    path = run / ".hydra" / "config.yaml"
    path.symlink_to("/dev/zero") if text is None else path.write_text(text)
    return run


@pytest.mark.parametrize(("verb", "bomb"), [*zip(itertools.cycle(("evaluate", "resume", "report")), BOMBS, strict=False)])
def test_a_bomb_is_one_line(verb, bomb, tmp_path):
    run = run_with(tmp_path, BOMBS[bomb])
    begun = time.process_time()
    text = one_line(neuro_inside(verb, "run", cwd=tmp_path))
    assert text.startswith(f"{Path('run') / '.hydra' / 'config.yaml'}: not a readable config: ")
    assert len(text) < 400
    # of the processor, and far from the minutes that it would be: a bound on work, not on a clock
    assert time.process_time() - begun < 30
    assert [path.name for path in run.iterdir()] == [".hydra"]


def test_configs_of_runs_are_far_from_the_bounds(tmp_path):
    for overrides in ((), ("algo=ensemble", "distribution=single_graph"), ("task=ant", "model=mlp_policy")):
        config = composed(*overrides)
        path = tmp_path / "config.yaml"
        OmegaConf.save(OmegaConf.create(config), path)
        assert path.stat().st_size * 50 < saved_yaml.BYTES
        assert saved_yaml.read(path) == config


def test_an_alias_is_no_bomb_by_itself(tmp_path):
    (tmp_path / "config.yaml").write_text("a: &a {b: 1e-3}\nc: [*a, *a]\n")
    assert saved_yaml.read(tmp_path / "config.yaml") == {"a": {"b": 1e-3}, "c": [{"b": 1e-3}] * 2}


@pytest.mark.parametrize("form", ["'%s'", "[1, '%s']", r"'\%s'"])
def test_a_saved_config_reads_nothing_of_the_environment(form, tmp_path, monkeypatch):
    value = form % "${oc.env:SECRET_OF_MINE}"
    monkeypatch.setenv("SECRET_OF_MINE", "hunter2")
    run = run_with(tmp_path, f"seed: 1\nmodel: {{_target_: {value}}}\n")
    with pytest.raises(UserError, match=r"model\._target_.*: an interpolation is not resolved here$") as caught:
        saved_config(run)
    assert "hunter2" not in str(caught.value)
