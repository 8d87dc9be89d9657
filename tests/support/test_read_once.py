"""A kept file is the config that OmegaConf reads, nobody's changes reach another reader, and values are looked up each time."""

import omegaconf.base
import pytest
from omegaconf import OmegaConf
from omegaconf.errors import GrammarParseError

from neuro_cli.core.files import config_folder
from support import read_once


def test_a_file_is_read_as_omegaconf_reads_it():
    for path in (config_folder() / "train.yaml", *(config_folder() / "distribution").glob("*.yaml")):
        for _ in range(2):
            with path.open() as file:
                file.read(9)
                file.seek(0)
                made = OmegaConf.load(file)
            assert OmegaConf.to_yaml(made) == OmegaConf.to_yaml(read_once._read(path))
            made["a change"] = 1  # in a copy


def test_an_interpolation_that_was_parsed_before_has_the_values_of_its_own_config():
    texts = {"plain": "${here}", "nested": "a ${.inner.${here}} b", "resolver": "${oc.decode:'[1, ${count}]'}"}
    for here, count in (("first", 1), ("second", 2)):
        given = {"here": here, "count": count, "inner": {"first": "f", "second": "s"}, **texts}
        config = OmegaConf.create(given)
        assert [config[name] for name in texts] == [here, f"a {here[0]} b", [1, count]]
    for _ in range(2):
        with pytest.raises(GrammarParseError):
            OmegaConf.create({"wrong": "${here"}).wrong  # noqa: B018 (it is parsed where it is read)
    assert omegaconf.base.parse.cache_info().hits
