"""Composition of a training run's config without Hydra's main function, for scripts: Hydra's global state stays as it was."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.version import VersionBase
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.basecontainer import BaseContainer

from neuro_cli.cli.hydra_job import CONFIG_FOLDER, mending
from neuro_cli.cli.options.groups import with_members
from neuro_cli.cli.overrides.check import checked
from neuro_cli.core.errors import UserError


@dataclass(frozen=True)
class Composed:
    """Resolved ``config`` of a run in the folder ``run``, and what Hydra keeps beside it: its own settings, the overrides."""

    config: dict[str, Any]
    run: Path
    hydra: DictConfig
    overrides: list[str]

    def save(self, more: Sequence[str]) -> None:
        """Write the files that Hydra's main function writes beside the config; ``more``: options that are no overrides."""
        folder = self.run / ".hydra"
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.hydra, folder / "hydra.yaml")
        OmegaConf.save(OmegaConf.create([*self.overrides, *more]), folder / "overrides.yaml")


def composed(overrides: Sequence[str]) -> Composed:
    """The config of ``neuro train OVERRIDES``. Raises UserError with the command's line."""
    for text in overrides:
        if text.startswith("-"):
            raise UserError(f"{text}: overrides like key=value are allowed here; a sweep is a loop")
    with _global_state_put_back(), mending():
        texts = checked("train", list(overrides)).arguments
        with initialize_config_dir(CONFIG_FOLDER, version_base="1.3", job_name="train"):
            whole = compose("train", texts, return_hydra_config=True)
        HydraConfig.instance().set_config(whole)  # for ${hydra:...} in the folder's name
        run = Path(str(whole.hydra.run.dir))
        with read_write(whole.hydra), open_dict(whole.hydra):
            whole.hydra.runtime.output_dir = str(run.absolute())
        HydraConfig.instance().set_config(whole)
        own, overrides = OmegaConf.masked_copy(whole, "hydra"), list(whole.hydra.overrides.task)
        with open_dict(whole):
            del whole["hydra"]  # it has values that only the jobs of a sweep know
            del whole["sweep"]
        resolved = OmegaConf.to_container(whole, resolve=True, throw_on_missing=True)
        assert isinstance(resolved, dict)
        config = with_members({str(key): value for key, value in resolved.items()})
    return Composed(config, run, own, overrides)


@contextmanager
def _global_state_put_back() -> Iterator[None]:
    """Begin without a Hydra, and put back that of a script which has one, with its options and resolvers."""
    Plugins.instance()  # those add to the store once, when they are first asked for
    hydra, config, version = GlobalHydra.instance(), HydraConfig.instance(), VersionBase.instance()
    before = hydra.hydra, config.cfg, version.version_base
    store, resolvers = deepcopy(ConfigStore.instance().repo), dict(BaseContainer._resolvers)
    hydra.clear()
    try:
        yield
    finally:
        GlobalHydra.set_instance(hydra)  # Hydra has put a copy in its place
        hydra.hydra, config.cfg, version.version_base = before
        ConfigStore.instance().repo = store
        BaseContainer._resolvers = resolvers
