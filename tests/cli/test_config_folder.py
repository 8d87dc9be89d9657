"""Options in a folder of the user's own: commands choose them, and every argument is checked as without one."""

import shutil
import sys
from pathlib import Path

import pytest
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf
from support.inside import neuro_inside, one_line, well

MINE = {
    "experiment/tiny.yaml": "# @package _global_\ndefaults:\n  - override /sampler: iid\npopulation: 12\n",
    "algo/steep.yaml": "_target_: neuro_cli.algo.openai_es.OpenAIES\nsigma: 0.3\n",
    "site/ours.yaml": "# @package _global_\nthreads: 3\n",
    "my_train.yaml": "defaults:\n  - train\n  - _self_\nseed: 77\n",
}


@pytest.fixture
def folder(tmp_path) -> Path:
    for name, text in MINE.items():
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


WAYS = [["--config-dir", "mine"], ["hydra.searchpath=[file://mine]"]]


@pytest.mark.parametrize("way", WAYS)
def test_options_of_the_folder_are_chosen_like_ours(folder, way):
    done = well(neuro_inside("train", *way, "+experiment=tiny", "algo=steep", "+site=ours", "--cfg", "job", cwd=folder))
    config = OmegaConf.create(done.stdout)
    assert (config.population, config.algo.sigma, config.threads) == (12, 0.3, 3)
    assert config.sampler._target_ == "neuro_cli.sampler.iid.Iid"


def test_a_config_of_its_own_name(folder):
    done = neuro_inside("train", "--config-dir", "mine", "--config-name", "my_train", "algo=steep", "--cfg", "job", cwd=folder)
    assert OmegaConf.create(done.stdout).seed == 77
    wrong = neuro_inside("train", "--config-dir", "mine", "--config-name", "my_train", "sed=3", cwd=folder)
    assert one_line(wrong).startswith("sed=3: no such key; did you mean seed")


def test_a_plugin_of_hydra_names_the_folder(folder, monkeypatch):
    class Site(SearchPathPlugin):
        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            search_path.append("site", f"file://{folder / 'mine'}")

    plain = Plugins.instance().discover
    monkeypatch.setattr(
        Plugins.instance(), "discover", lambda kind=None: [*plain(kind), *([Site] if kind is SearchPathPlugin else [])]
    )
    done = neuro_inside("train", "algo=steep", "--cfg", "job", cwd=folder)
    assert OmegaConf.create(done.stdout).algo.sigma == 0.3
    assert one_line(neuro_inside("train", "algo=stepe", cwd=folder)).startswith("algo=stepe: no such option; did you mean steep")


def test_a_package_has_options_too(folder, monkeypatch):
    (folder / "my_options").mkdir()
    (folder / "my_options" / "__init__.py").touch()
    shutil.copytree(folder / "mine", folder / "my_options" / "conf")
    (folder / "my_options" / "conf" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "my_options", raising=False)
    done = well(neuro_inside("train", "hydra.searchpath=[pkg://my_options.conf]", "algo=steep", "--cfg", "job", cwd=folder))
    assert OmegaConf.create(done.stdout).algo.sigma == 0.3


def test_a_sweep_over_the_folders_options_trains(folder):
    small = ("population=8", "batch_size=16", "threads=1", "generations=1", "hydra.sweep.dir=sweep")
    well(neuro_inside("train", "-m", "--config-dir", "mine", *small, "algo=steep,snes", cwd=folder))
    assert OmegaConf.load(folder / "sweep" / "0" / ".hydra" / "config.yaml").algo.sigma == 0.3
