"""A kept file is the config that OmegaConf reads, and nobody's changes reach another reader."""

from omegaconf import OmegaConf

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
