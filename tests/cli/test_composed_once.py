"""A training command composes its config once: the check of the arguments and Hydra's run share it, to the last key."""

import shutil

import hydra
import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from neuro_cli.cli import hydra_job
from neuro_cli.cli.hydra_job import CONFIG_FOLDER, hydra_verb
from neuro_cli.cli.overrides.check import checked

seen: list[tuple] = []


@hydra.main(version_base="1.3", config_path=CONFIG_FOLDER, config_name="train")
def train_main(config):
    own = HydraConfig.get()
    plain = [OmegaConf.to_container(node, resolve=False) for node in (config, own)]
    seen.append((*plain, *((OmegaConf.is_readonly(node), OmegaConf.is_struct(node)) for node in (config, own))))


def run(arguments: list[str], monkeypatch, tmp_path) -> tuple[int, tuple]:
    """How often the command composes, and what its function gets: config, Hydra's own, whether they may be written."""
    count, loads = [], ConfigLoaderImpl.load_configuration

    def counted(self, *args, **kwargs):
        count.append(args)
        return loads(self, *args, **kwargs)

    monkeypatch.setattr(ConfigLoaderImpl, "load_configuration", counted)
    monkeypatch.setattr("sys.argv", ["neuro"])
    monkeypatch.chdir(tmp_path)
    hydra_verb(train_main)([*arguments, "hydra.run.dir=run"])
    shutil.rmtree("run")
    monkeypatch.setattr(ConfigLoaderImpl, "load_configuration", loads)
    return len(count), seen.pop()


@pytest.mark.parametrize(
    ("arguments", "once"),
    [
        ([], True),
        (["population=64", "+algo=snes", "sampler=low_rank"], True),
        (["+experiment=mnist_30k", "algo.sigma=${seed}", "task.download=true", "seed=3"], True),
        (["hydra.job.chdir=false", "checkpoint.every=7"], True),
        (["+algo.optimizer.eps=1e-3"], False),
        (["++seed=4"], False),
    ],
    ids=str,
)
def test_what_hydra_would_compose_again_is_what_it_gets(arguments, once, monkeypatch, tmp_path):
    composed, mine = run(arguments, monkeypatch, tmp_path)
    assert composed == (1 if once else 2)
    monkeypatch.setattr(hydra_job, "_ready", lambda command, composes: composes)
    again, hydras = run(arguments, monkeypatch, tmp_path)
    assert again == 2
    assert mine == hydras


def test_a_sweep_help_and_a_mode_are_composed_by_hydra():
    assert checked("train", ["seed=1"]).whole
    for arguments in (["-m", "seed=1,2"], ["--cfg", "job"], ["hydra.mode=RUN"], ["~logger"]):
        assert not checked("train", arguments).whole, arguments
