"""Study of Optuna behind a sweep: its file, its sampler, its pruner, by the keys of ``hydra/sweeper=optuna``."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.storages import BaseStorage, JournalStorage, get_storage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.messages.did_you_mean import nearest

FILE = "study.journal"
DIRECTIONS = ("minimize", "maximize")
DATABASES = (".db", ".sqlite", ".sqlite3")
LISTED = ("grid", "bruteforce")  # samplers of what neuro train -m runs by itself
FIXED = ("qmc",)  # samplers with one sequence of points: a seed for each trial would break it


def study_of(settings: Mapping[str, Any], folder: Path) -> optuna.Study:
    """Return the study of the sweep in ``folder``, which an earlier command may have begun. Raises ConfigError."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    one_of("hydra.sweeper.direction", settings["direction"], DIRECTIONS)
    pruner = _made(optuna.pruners, "Pruner", "pruner", dict(settings["pruner"] or {}))
    study = optuna.create_study(
        storage=_storage(settings["storage"], folder),
        study_name=str(settings["study_name"] or folder.absolute().name),
        direction=settings["direction"],
        pruner=pruner or optuna.pruners.NopPruner(),
        load_if_exists=True,
    )
    if study.direction.name.lower() != settings["direction"]:
        raise ConfigError(
            "hydra.sweeper.direction", settings["direction"], "its study has another; choose a new folder or study_name"
        )
    return study


def _storage(name: str | None, folder: Path) -> BaseStorage:
    text = str(name or folder / FILE)
    if "://" in text:
        return get_storage(text)
    if text.endswith(DATABASES):
        return get_storage(f"sqlite:///{Path(text).absolute()}")
    Path(text).parent.mkdir(parents=True, exist_ok=True)
    return JournalStorage(JournalFileBackend(text, lock_obj=JournalFileOpenLock(text)))  # a lock that needs no symbolic links


def sampler_of(settings: Mapping[str, Any], trial: int) -> optuna.samplers.BaseSampler:
    """Return the sampler that draws the values of ``trial``. Raises ConfigError.

    The seed depends on the trial, so that a resumed sweep draws the values of an undisturbed one.
    """
    arguments = {"name": "tpe", **(settings["sampler"] or {})}
    name, seed = str(arguments["name"]), arguments.get("seed")
    if name in LISTED:
        raise ConfigError("hydra.sweeper.sampler.name", name, "lists all points: leave out hydra/sweeper=optuna for that")
    if seed is not None and name not in FIXED:
        arguments["seed"] = int(np.random.SeedSequence([int(seed), trial]).generate_state(1)[0])
    made = _made(optuna.samplers, "Sampler", "sampler", arguments)
    assert isinstance(made, optuna.samplers.BaseSampler)
    return made


def _made(module: Any, ending: str, key: str, arguments: dict[str, Any]) -> Any:
    """Return the object of Optuna's ``module`` with the short name in ``arguments``; None without a name. Raises ConfigError."""
    classes = {name.removesuffix(ending).lower(): getattr(module, name) for name in module.__all__ if name.endswith(ending)}
    classes.pop("base", None)
    name = arguments.pop("name", None)
    if name is None:
        return None
    if name not in classes:
        raise ConfigError(f"hydra.sweeper.{key}.name", name, nearest(str(name), classes))
    allowed = inspect.signature(classes[name]).parameters
    if arguments.get("seed") is None or "seed" not in allowed:
        arguments.pop("seed", None)
    try:
        return classes[name](**arguments)
    except (TypeError, ValueError, ImportError) as error:
        raise ConfigError(f"hydra.sweeper.{key}.name", name, " ".join(str(error).split())) from error
