"""Composition of a verb's config, the same for a command and for a script."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.types import HydraContext, RunMode
from hydra.version import VersionBase
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from neuro_cli.cli.error_lines import mending
from neuro_cli.cli.options.groups import with_members
from neuro_cli.cli.overrides.check import Checked, checked
from neuro_cli.core.errors import UserError

HYDRAS = ("now", "hydra", "python_version")  # resolvers that Hydra registers when it starts


def composed(command: Checked, loader: ConfigLoader, mode: RunMode | None = None) -> DictConfig:
    """Return the complete config of ``command``, Hydra's own settings included. The check may have composed it already.

    ``mode``: of the run that begins, None where nothing runs.
    """
    config = command.composed
    if not command.complete or mode is RunMode.MULTIRUN:
        config = loader.load_configuration(command.tree.name, command.overrides, mode or RunMode.RUN)
    if mode is not None and config.hydra.mode is not mode:
        with read_write(config.hydra):
            config.hydra.mode = mode
            config.hydra.overrides.hydra.append(f"hydra.mode={mode.name}")  # the jobs of a sweep are composed by it
    OmegaConf.set_readonly(config.hydra, False)
    return config


class _NoCallbacks:
    """Callbacks of Hydra around a job; neuro has none."""

    def on_job_start(self, **_: Any) -> None:
        """Do nothing when a job starts."""

    on_job_end = on_job_start


def context_of(loader: ConfigLoader) -> HydraContext:
    """Return what Hydra's launchers hand to the processes of their jobs."""
    return HydraContext(config_loader=loader, callbacks=_NoCallbacks())  # type: ignore[arg-type]


@dataclass(frozen=True)
class Composed:
    """Resolved ``config`` of a run in the folder ``run``; ``hydra``: Hydra's own settings."""

    config: dict[str, Any]
    run: Path
    hydra: DictConfig
    overrides: list[str]

    def save(self, more: Sequence[str]) -> None:
        """Write the files that a command writes next to its config; ``more``: options that are no overrides."""
        folder = self.run / ".hydra"
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.hydra, folder / "hydra.yaml")
        OmegaConf.save(OmegaConf.create([*self.overrides, *more]), folder / "overrides.yaml")


def composed_training(overrides: Sequence[str]) -> Composed:
    """Return the config of ``neuro train OVERRIDES``, and leave Hydra's global state as it was. Raises UserError."""
    for text in overrides:
        if text.startswith("-"):
            raise UserError(f"{text}: overrides like key=value are allowed here; a sweep is a loop")
    with _global_state_put_back(), mending():
        command = checked("train", list(overrides))
        with command.tree.loaded() as loader:
            config = composed(command, loader, RunMode.RUN)
        HydraConfig.instance().set_config(config)  # the folder's name may have ${hydra:...}
        run = Path(str(config.hydra.run.dir))
        with read_write(config.hydra), open_dict(config.hydra):
            config.hydra.runtime.output_dir = str(run.absolute())
        HydraConfig.instance().set_config(config)
        return Composed(resolved(config), run, OmegaConf.masked_copy(config, "hydra"), list(config.hydra.overrides.task))


def resolved(config: DictConfig) -> dict[str, Any]:
    """Return the config of a run as plain values, without Hydra's own and the sweep's keys. Raises errors of OmegaConf."""
    return with_members(plain_keys(config, "hydra", "sweep", resolve=True))


def plain_keys(config: DictConfig, *without: str, resolve: bool = False) -> dict[str, Any]:
    """Return the keys of ``config`` as plain values, but those of ``without``. Raises errors of OmegaConf where they resolve."""
    keys: DictConfig = config
    if resolve:  # a copy, since what is left out may refer to what is missing
        keys = OmegaConf.masked_copy(config, [str(key) for key in config if key not in without])
        OmegaConf.copy_cache(from_config=config, to_config=keys)  # ${now:...} stays what it was in the folder's name
    plain = OmegaConf.to_container(keys, resolve=resolve, throw_on_missing=resolve)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items() if key not in without}


@contextmanager
def _global_state_put_back() -> Iterator[None]:
    """Begin without a Hydra, and restore the script's own, with its options. Hydra's resolvers go where the script had none."""
    Plugins.instance()  # adds its options to the store once, when it is first asked for
    hydra, config, version = GlobalHydra.instance(), HydraConfig.instance(), VersionBase.instance()
    before = hydra.hydra, config.cfg, version.version_base
    store, resolvers = deepcopy(ConfigStore.instance().repo), [name for name in HYDRAS if not OmegaConf.has_resolver(name)]
    hydra.clear()
    try:
        yield
    finally:
        GlobalHydra.set_instance(hydra)  # Hydra has put a copy in its place
        hydra.hydra, config.cfg, version.version_base = before
        ConfigStore.instance().repo = store
        for name in resolvers:
            OmegaConf.clear_resolver(name)
