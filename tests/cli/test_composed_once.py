"""A command composes its config once, and its job gets to the last key what Hydra's own main function would give it."""

import shutil
import sys
from pathlib import Path
from typing import Any

import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from neuro_cli.cli.command import hydra_verb
from neuro_cli.cli.compose import resolved
from neuro_cli.cli.options.tree import BASE, ConfigTree
from neuro_cli.cli.overrides.check import checked
from neuro_cli.core.files import config_folder


def hydras_own() -> tuple[Any, ...]:
    """Hydra's settings in a job, and whether they may be written."""
    own = HydraConfig.get()
    plain: Any = OmegaConf.to_container(own, resolve=False)
    # only Hydra 1.3 notes the mode of a single run
    plain["overrides"]["hydra"] = [text for text in plain["overrides"]["hydra"] if text != "hydra.mode=RUN"]
    return plain, OmegaConf.is_readonly(own), OmegaConf.is_struct(own)


def by_neuro(arguments: list[str]) -> tuple[Any, ...]:
    seen: list[tuple[Any, ...]] = []

    def work(config: dict[str, Any], run: Path) -> int:
        seen.append((config, *hydras_own()))
        return 0

    hydra_verb("train", work)(arguments)
    return seen[0]


def by_hydra(arguments: list[str]) -> tuple[Any, ...]:
    seen: list[tuple[Any, ...]] = []

    @hydra.main(config_path=str(config_folder()), config_name="train", **BASE)
    def main(config: Any) -> None:
        seen.append((resolved(config), *hydras_own()))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["neuro", *checked("train", arguments).overrides])
        GlobalHydra.instance().clear()
        main()
    return seen[0]


@pytest.fixture
def compositions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Arguments of each composition from here on."""
    count: list[tuple[Any, ...]] = []
    with ConfigTree("train").loaded() as loader:
        kind = type(loader)
    loads = kind.load_configuration

    def counted(self: Any, *arguments: Any, **named: Any) -> Any:
        count.append(arguments)
        return loads(self, *arguments, **named)

    monkeypatch.setattr(kind, "load_configuration", counted)
    return count


@pytest.mark.parametrize(
    ("arguments", "times"),
    [
        ([], 1),
        (["population=64", "+algo=snes", "sampler=low_rank"], 1),
        (["+experiment=mnist_30k", "algo.sigma=${seed}", "task.download=true", "seed=3"], 1),
        (["hydra.job.chdir=false", "checkpoint.every=7"], 1),
        (["+algo.optimizer.eps=1e-3"], 2),  # a new key is checked against the options first
        (["++seed=4"], 2),
    ],
    ids=str,
)
def test_a_job_gets_what_hydra_would_give_it(arguments, times, compositions, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments = [*arguments, "hydra.run.dir=run"]
    mine = by_neuro(arguments)
    assert len(compositions) == times
    shutil.rmtree("run")
    assert mine == by_hydra(arguments)


@pytest.mark.parametrize("flags", [["--cfg", "job"], ["--help"]])
def test_what_is_shown_is_composed_once_too(flags, compositions, capsys):
    assert hydra_verb("train", lambda config, run: 1)([*flags, "seed=3"]) == 0
    assert "seed: 3" in capsys.readouterr().out
    assert len(compositions) == 1
