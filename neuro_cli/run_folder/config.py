"""Reader and writer of a run folder's saved config."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from neuro_cli.core.errors import UserError
from neuro_cli.core.files import write_atomically
from neuro_cli.core.messages.did_you_mean import closest
from neuro_cli.run_folder import saved_yaml
from neuro_cli.run_folder.identity import leaves
from neuro_cli.run_folder.short_names import refuse_unbegun
from neuro_cli.run_folder.state_file import STATE


def class_names(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the classes of model, task and algo that a config has, by group; of an environment its id."""
    nodes = {group: config[group] for group in ("model", "task", "algo") if config.get(group)}
    return {group: str(node.get("id") or node.get("_target_", "")).rpartition(".")[2] for group, node in nodes.items()}


@contextmanager
def resumed_config(run: Path, config: Mapping[str, Any]) -> Iterator[None]:
    """Write the config of a resumed run next to the original one; remove it again if no checkpoint follows."""
    path, state = run / ".hydra" / "resumed.yaml", run / "checkpoints" / STATE
    config_before, state_before = _content(path), _content(state)
    write_atomically(path, OmegaConf.to_yaml(OmegaConf.create(dict(config))).encode())
    try:
        yield
    finally:
        if _content(state) == state_before and path.exists():  # a moved folder takes the file along
            if config_before is None:
                path.unlink()
            else:
                write_atomically(path, config_before)


def write_config(run: Path, config: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """Write the config of a run that no command composed; ``overrides``: what its user chose, as the command line has it."""
    for name, node in (("config", dict(config)), ("overrides", list(overrides))):
        write_atomically(run / ".hydra" / f"{name}.yaml", OmegaConf.to_yaml(OmegaConf.create(node)).encode())


def save_config(config: Mapping[str, Any], run: Path) -> None:
    """Write the resolved config of a run, so that a resume with more generations does not stretch its schedules."""
    OmegaConf.save(OmegaConf.create(dict(config)), run / ".hydra" / "config.yaml")


def rewrite(run: Path, values: Mapping[str, Any]) -> None:
    """Replace the root keys ``values`` in the config of a run's folder."""
    path = config_file(run)
    write_atomically(path, OmegaConf.to_yaml(OmegaConf.create({**saved_yaml.read(path), **values})).encode())


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def saved_config(run: Path) -> dict[str, Any]:
    """Return the resolved config in the folder of a run of any verb. Raises UserError for a folder that is no run."""
    config = config_of(run)
    for key, value in leaves(config):
        # runs save resolved configs: this one never began or was edited, and resolving it could read the environment
        if isinstance(value, str) and "${" in value:
            refuse_unbegun(run)
            raise UserError(f"{config_file(run)}: {key}={value}: an interpolation is not resolved here")
    return config


def is_run(folder: Path) -> bool:
    """Return whether ``folder`` is that of a run, of any verb."""
    return config_file(folder).exists()


def config_of(run: Path) -> dict[str, Any]:
    """Return the config of a run of any verb, as of its last session, for display: interpolations stay unresolved.

    Raises UserError for a folder that is no run.
    """
    if not is_run(run):
        others = [each.name for each in run.parent.iterdir() if is_run(each)] if run.parent.is_dir() else []
        close = closest(run.name, others, 1)
        hint = f"; did you mean {run.parent / close[0]}?" if close else ""
        raise UserError(f"{run}: not a neuro run (no .hydra/config.yaml there){hint}")
    config = saved_yaml.read(config_file(run))
    return {str(key): value for key, value in config.items()} if isinstance(config, dict) else {}


def config_file(run: Path) -> Path:
    """Return the file of a run's config, as of its last session."""
    resumed = run / ".hydra" / "resumed.yaml"
    return resumed if resumed.exists() else run / ".hydra" / "config.yaml"


def is_search(run: Path) -> bool:
    """Return whether the folder is that of an architecture search. Raises UserError for a folder that is no run."""
    return {"strategy", "trainings"} <= saved_config(run).keys()
