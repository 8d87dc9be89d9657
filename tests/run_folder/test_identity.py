"""Folders of earlier versions are read with the present names of classes."""

import importlib

import pytest

from neuro_cli.core.errors import UserError
from neuro_cli.run_folder.config import saved_config
from neuro_cli.run_folder.identity import MOVED, refuse_difference, renamed


def test_every_new_name_is_a_class_and_no_old_one_is():
    for old, new in MOVED.items():
        module, _, name = new.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), name), type)
        module, _, name = old.rpartition(".")
        with pytest.raises((ModuleNotFoundError, AttributeError)):  # another class may have taken the file
            getattr(importlib.import_module(module), name)


def test_a_saved_config_has_the_present_names(tmp_path):
    (tmp_path / ".hydra").mkdir()
    text = (
        "pool:\n  _target_: neuro_cli.broker.embedded.EmbeddedPool\nlist: [neuro_cli.search.generational.Generational, 1, null]\n"
    )
    (tmp_path / ".hydra" / "config.yaml").write_text(text)
    strategy = "neuro_cli.strategy.generational.Generational"
    assert saved_config(tmp_path) == {"pool": {"_target_": "neuro_cli.pool.embedded.EmbeddedPool"}, "list": [strategy, 1, None]}


def test_a_checkpoint_of_before_is_the_same_run():
    now = {"strategy._target_": "neuro_cli.strategy.random.RandomSearch", "seed": 1}
    refuse_difference(now, {"strategy._target_": "neuro_cli.search.random_search.RandomSearch", "seed": 1}, "neuro search")
    with pytest.raises(UserError, match=r"strategy\._target_"):
        refuse_difference(now, {"strategy._target_": "neuro_cli.search.generational.Generational", "seed": 1}, "neuro search")


def test_what_has_no_other_name_stays():
    assert renamed({"a": [1, "neuro_cli.algo.snes.SNES", {"b": None}]}) == {"a": [1, "neuro_cli.algo.snes.SNES", {"b": None}]}
