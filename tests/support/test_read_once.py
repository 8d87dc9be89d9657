"""A kept file is the config that OmegaConf reads, and nobody's changes reach another reader."""

from omegaconf import OmegaConf

from neuro_cli.core.files import config_folder
from support import read_once


def test_every_file_of_conf_is_read_as_omegaconf_reads_it():
    for path in config_folder().rglob("*.yaml"):
        for _ in range(2):
            with path.open() as file:
                file.read(9)
                file.seek(0)
                made = OmegaConf.load(file)
            assert made == read_once._read(path)
            assert OmegaConf.to_yaml(made) == OmegaConf.to_yaml(read_once._read(path))
            made["a change"] = 1
