"""Options that were removed: their names, and configs that name their classes, get one line with what takes their place."""

import pytest

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.files import config_folder
from neuro_cli.core.removed import CLASSES, OPTIONS, no_option, refuse_removed


def test_a_removed_option_is_none_that_exists():
    for option in OPTIONS:
        group, _, name = option.partition("=")
        assert not (config_folder() / group / f"{name}.yaml").exists()
    assert set(CLASSES.values()) <= OPTIONS.keys()


@pytest.mark.parametrize("option", OPTIONS)
def test_a_removed_option_says_what_takes_its_place(option):
    group, _, name = option.partition("=")
    assert str(no_option(group, name, ["other"])) == f"{option}: was removed; {OPTIONS[option]}"


@pytest.mark.parametrize("target", CLASSES)
def test_a_config_of_a_removed_class_says_the_same(target):
    with pytest.raises(ConfigError, match=f"^{CLASSES[target]}: was removed; "):
        refuse_removed(target)


def test_another_name_is_no_option():
    assert str(no_option("pool", "brokr", ["broker", "embedded"])) == "pool=brokr: no such option; did you mean broker?"
    refuse_removed("neuro_cli.pool.broker.BrokerPool")
