"""Checks the command line before Hydra: ``+group=x`` means ``group=x``, and an error for a misspelt word names the nearest.

Hydra takes ``+alg=snes`` as a new value and runs the default; its other messages take a page. So the overrides are
checked here against the composed config, and Hydra gets only what it will accept.
"""

import copy
import re
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from hydra import compose
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import Glob, Override
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from neuro_cli.cli.options.groups import TABLES, groups, groups_of, options_in, sections_of, several_of
from neuro_cli.cli.options.tree import ConfigTree, sets_places, tree_of
from neuro_cli.cli.overrides.flags import parsed_arguments
from neuro_cli.cli.overrides.grammar import (
    alone,
    choices_of,
    hydras_text,
    is_default_null,
    is_hydras,
    override_of,
    own_classes,
    sweeps,
    values_of,
    without_plus,
)
from neuro_cli.cli.overrides.keys import checked_key, keys_of, no_key
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.messages.did_you_mean import nearest, no_option
from neuro_cli.core.messages.install import install
from neuro_cli.launch import lock, slurm_submit
from neuro_cli.launch.restarts import restarts
from neuro_cli.run_folder.short_names import refuse_unbegun
from neuro_cli.run_folder.sweep_record import FILE as SWEEP_RECORD

# files that mark the folder of a run or a sweep
RUN_FILES = {".hydra", "metrics.csv", "checkpoints", "summary.json", "multirun.yaml"}

IN_EXTRA = {"joblib": "sweep", "ray": "ray"}  # launchers of packages that an extra of neuro installs
CONTINUES = ("reproduce",)  # verbs whose command continues what its folder holds


def _known(tree: ConfigTree) -> dict[str, list[str]]:
    """Return the groups and their options, with those of the user's own folders."""
    if not tree.more:
        return groups()
    return {name: list(tree.groups.get(name, [])) for name in (*groups(), *tree.own_groups)}


@dataclass(frozen=True)
class Checked:
    """Command that Hydra accepts: its ``flags``, and ``overrides`` of the config ``tree``.

    ``composed``: the config that they give, of a sweep that of its first job.
    ``complete``: ``composed`` is to the last key what runs, Hydra's own settings included.
    """

    tree: ConfigTree
    flags: Namespace
    overrides: list[str]
    composed: DictConfig
    complete: bool = False

    @property
    def shows(self) -> bool:
        """Return whether the command asks for help or the config, so that nothing runs."""
        return any((self.flags.help, self.flags.hydra_help, self.flags.cfg))

    @property
    def sweeps(self) -> bool:
        """Return whether the checked command runs several jobs, a sweep."""
        return bool(self.flags.multirun) or self.composed.hydra.mode == RunMode.MULTIRUN


def checked(verb: str, arguments: list[str], continues: Callable[[Path], bool] = lambda _: False) -> Checked:
    """Check the arguments of a verb that Hydra composes. Raises UserError for unknown groups, options and keys.

    ``continues``: whether this command began the sweep in a folder.
    """
    flags = parsed_arguments(arguments)
    tree = tree_of(verb, flags)
    available = _known(tree) | ({TABLES: options_in(TABLES)} if verb == "reproduce" else {})
    typed = [override_of(with_stored_files(text, available)) for text in flags.overrides if not sets_places(text)]
    # Hydra takes null in a defaults list, and not for an override
    overrides = alone([override for override in typed if not is_default_null(verb, override, available)])
    name = f"hydra.job.name={verb}"  # Hydra would take it from the config's name
    texts, config = compose_whole(tree, [name], overrides, available) if tree.name == verb else ([], None)
    complete = config is not None
    if config is None:
        texts, config = _composed_in_steps(tree, overrides, available)
    command = Checked(tree, flags, [name, *texts], config, complete)
    _check(verb, command, overrides, continues)
    if OmegaConf.select(config, "hydra.launcher._target_") != slurm_submit.LAUNCHER:
        return command
    return replace(command, overrides=[*command.overrides, *_tasks(config, overrides)], complete=False)


def _composed_in_steps(
    tree: ConfigTree, overrides: list[Override], available: dict[str, list[str]]
) -> tuple[list[str], DictConfig]:
    """Return the overrides as Hydra takes them, each checked, and the config: choices of options first, then the values."""
    hydras = [hydras_text(o) for o in overrides if is_hydras(o, available) and not sweeps(o)]
    bases = [compose_choices(tree, [*choices, *hydras]) for choices in choices_of(overrides, available)]
    free = tuple(f"{group}." for group in own_classes(overrides))  # arguments that the class itself checks
    texts = [str(o.input_line) if o.key_or_group.startswith(free) else checked_key(o, bases, available, tree) for o in overrides]
    # the jobs check swept values themselves
    values = [o for o in overrides if not (o.key_or_group in available or is_hydras(o, available) or sweeps(o))]
    return texts, with_values(bases[0], values)


def _check(verb: str, command: Checked, overrides: list[Override], continues: Callable[[Path], bool]) -> None:
    """Check launcher, folders and swept values. Raises UserError."""
    config = command.composed
    if OmegaConf.select(config, "hydra.launcher._target_") == slurm_submit.LAUNCHER and not command.flags.cfg:
        slurm_submit.check(command.sweeps)
    for kind in ("launcher", "sweeper"):
        if not isinstance(node := OmegaConf.select(config, f"hydra.{kind}"), DictConfig):
            raise ConfigError(f"hydra.{kind}", node, f"it has keys of its own; hydra/{kind}=NAME chooses one")
    subfolder = OmegaConf.select(config, "hydra.output_subdir")
    if subfolder != ".hydra":
        raise ConfigError("hydra.output_subdir", subfolder, "stays .hydra: resume, evaluate and report read a run's config there")
    if OmegaConf.select(config, "hydra.callbacks"):
        raise ConfigError(
            "hydra.callbacks", ", ".join(config.hydra.callbacks), "neuro calls none; a logger gets every generation"
        )
    if verb not in CONTINUES:
        _refuse_existing(config, command.sweeps, continues)
    _check_sweeps([override for override in overrides if sweeps(override)], command.sweeps)


def _check_sweeps(swept: list[Override], multirun: bool) -> None:
    """Raise UserError for a sweep without -m, and for one without a value."""
    if swept and not multirun:
        raise UserError(f"{swept[0].input_line}: a sweep over several values needs -m (or quotes, if it is one value)")
    for override in swept:
        lists = override.is_discrete_sweep() and not isinstance(override.value(), Glob)  # patterns of options are checked
        if lists and not any(True for _ in override.sweep_string_iterator()):
            raise UserError(f"{override.input_line}: it has no value, so the sweep would have no job")


def _tasks(full: DictConfig, overrides: list[Override]) -> list[str]:
    """Return the override that makes SLURM give each job room for its ranks. All jobs are one array and get the same."""
    key = "hydra.launcher.additional_parameters.ntasks"
    if any(override.key_or_group == key for override in overrides):
        return []
    swept = [value for override in overrides if override.key_or_group == "ranks" for value in values_of(override, [])]
    ranks = [int(value) for value in (*swept, str(OmegaConf.select(full, "ranks"))) if value.isdigit()]
    return [f"{key}={max(ranks, default=1)}"]


def _refuse_existing(config: DictConfig, multirun: bool, continues: Callable[[Path], bool]) -> None:
    """Refuse an output folder that already holds a run, before Hydra writes into it."""
    if restarts():
        return  # the folder has the run of this job's earlier start, which continues
    HydraConfig.instance().set_config(config)
    try:
        text = str(config.hydra.sweep.dir if multirun else config.hydra.run.dir)
    except OmegaConfBaseException:
        return  # the job alone can resolve the name
    if not text.strip() or "\0" in text:
        key = "hydra.sweep.dir" if multirun else "hydra.run.dir"
        raise ConfigError(key, text, "must be a folder (for the present one: .)")
    folder = Path(text)
    files = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if files & (RUN_FILES | {SWEEP_RECORD}) and multirun and not continues(folder):
        how = f"; continue with: neuro resume {folder}" if SWEEP_RECORD in files else ""
        raise ConfigError("hydra.sweep.dir", folder, f"already contains a run or another sweep; choose a new folder{how}")
    if multirun:
        return
    if files & RUN_FILES:
        if not lock.is_taken(folder):  # a command is still loading in a taken one
            refuse_unbegun(folder)
        raise ConfigError("hydra.run.dir", folder, f"already contains a run; continue it with: neuro resume {folder}")


def compose_whole(
    tree: ConfigTree, first: list[str], overrides: list[Override], available: dict[str, list[str]]
) -> tuple[list[str], DictConfig | None]:
    """Return plain overrides as Hydra takes them, and the config of ``first`` and them; None where keys must be checked.

    A plain override chooses an option of a group or sets an existing key. Hydra refuses other keys; composing again
    without the values shows what is wrong with them.
    """
    texts = [str(o.input_line) if o.key_or_group in tree.own_groups else without_plus(o) for o in overrides]
    if not all(_is_plain(override, available) for override in overrides):
        return texts, None
    single = {o.key_or_group for o in overrides if "." not in o.key_or_group} - available.keys()
    if single and not single.isdisjoint(sections_of(tree.name)):
        return texts, None  # a value in place of keys
    choices_of(overrides, available)  # refuses what is no option
    try:
        with tree.loaded():
            return texts, compose(tree.name, [*first, *texts], return_hydra_config=True)
    except (HydraException, OmegaConfBaseException):
        return texts, None


def _is_plain(override: Override, available: dict[str, list[str]]) -> bool:
    key = override.key_or_group
    if not key or sweeps(override) or override.is_delete() or "@" in str(override.input_line).partition("=")[0]:
        return False
    if key in available:
        return True
    return not (override.is_add() or override.is_force_add() or key.startswith("hydra/") or key == "hydra.mode")


def compose_choices(tree: ConfigTree, overrides: list[str]) -> DictConfig:
    """Return the config of the ``overrides``, which choose options. Raises UserError."""
    try:
        with tree.loaded():
            return compose(tree.name, overrides, return_hydra_config=True)
    except (HydraException, OmegaConfBaseException) as error:
        if found := re.match(r"Could not override '(\w+)'\.\s+No match in the defaults list", str(error)):
            value = next(text.partition("=")[2] for text in overrides if text.startswith(f"{found[1]}="))
            raise ConfigError(found[1], value, f"neuro {tree.name} has no such group; it has {_named(tree.name)}") from error
        if found := re.match(r"In 'hydra/config': Could not find 'hydra/(launcher|sweeper)/(\w+)'", str(error)):
            raise _no_plugin(found[1], found[2], str(error)) from error
        if found := re.match(r"Could not override '(hydra[./][\w./]+)'", str(error)):
            raise _no_hydra_key(tree, found[1], overrides) from error
        if str(error).startswith("Cannot find primary config"):
            raise UserError(f"--config-name {tree.name}: neither neuro's configs nor yours have a {tree.name}.yaml") from error
        # Hydra's search path takes many lines and does not help a user of neuro
        raise UserError(" ".join(str(error).partition("Config search path")[0].split())) from error


def with_values(base: DictConfig, overrides: list[Override]) -> DictConfig:
    """Return a copy of ``base`` with the values of ``overrides``, which saves composing it again. Raises UserError."""
    full = copy.deepcopy(base)
    with open_dict(full):
        for override in overrides:
            key = override.key_or_group.partition("@")[0]
            if override.is_delete():
                continue
            try:
                OmegaConf.update(full, key, override.value(), force_add=True)
            except RecursionError as error:
                raise UserError(f"{override.input_line}: it is nested too deeply") from error
    return full


def _no_plugin(kind: str, name: str, said: str) -> ConfigError:
    """Return the error for an absent launcher or sweeper, with the extra that installs it if one does."""
    if kind == "launcher" and name in IN_EXTRA:
        return ConfigError("hydra/launcher", name, f"is not installed: {install(IN_EXTRA[name])}")
    valid = said.partition("Available options in")[2].partition("Config search path")[0].split()[1:]
    return no_option(f"hydra/{kind}", name, valid)


def _no_hydra_key(tree: ConfigTree, key: str, overrides: list[str]) -> ConfigError:
    """Return the error for a ``key`` or group that Hydra, or the chosen launcher or sweeper, does not have."""
    value = next(text.partition("=")[2] for text in overrides if text.startswith(f"{key}="))
    config = compose_choices(tree, [text for text in overrides if not text.startswith(f"{key}=")])
    if "/" in key:
        return ConfigError(key, value, f"no such group; {nearest(key, map(str, config.hydra.runtime.choices))}")
    keys = ["hydra", *(f"hydra.{name}" for name in keys_of(config.hydra))]
    return no_key(key, value, keys, keys)


def _named(verb: str) -> str:
    """Return the groups of a verb as a message lists them."""
    return ", ".join(sorted(group for group in groups_of(verb) if "@" not in group))


def with_stored_files(text: str, available: dict[str, list[str]]) -> str:
    """Replace ``model=FOLDER/NAME.yaml``: the file becomes an option of its group, named NAME, which the override chooses.

    ``available`` has it afterwards. Raises ConfigError for a file that is absent or no option.
    """
    key, equals, values = text.partition("=")
    group = key.lstrip("+")
    if group not in available or not equals:
        return text
    if group == "logger" and (listed := re.fullmatch(r"\[([\w, ]*)\]", values)):
        return f"{key}={_several(re.split(r'[, ]+', listed[1].strip(' ,')), available)}"
    # brackets of lists stay in place, in a sweep of lists too
    parts = re.split(r"([\[\],])", values)
    return f"{key}={''.join(_stored(group, Path(part), available) if part.endswith('.yaml') else part for part in parts)}"


def _stored(group: str, file: Path, available: dict[str, list[str]]) -> str:
    """Store ``file`` as an option of ``group`` and return its name: that of the file, with a number if it is taken."""
    try:
        node = OmegaConf.load(file)
    except OSError as error:
        raise ConfigError(group, file, f"it cannot be read: {error.strerror}") from error
    except Exception as error:  # YAML's errors are many
        raise ConfigError(group, file, f"it is no YAML: {' '.join(str(error).split())[:160]}") from error
    if not isinstance(node, DictConfig) or ("_target_" not in node and group != TABLES):
        raise ConfigError(
            group, file, "an option is a file of keys, _target_ among them" if group != TABLES else "an entry is a file of keys"
        )
    stem = re.sub(r"\W", "_", file.stem)  # the name may become a key
    names = (f"{stem}_{number}" if number > 1 else stem for number in count(1))
    name = next(name for name in names if name not in available[group])
    ConfigStore.instance().store(name, node, group, f"tables.{name}" if group == TABLES else None)
    available[group].append(name)
    return name


def _several(names: list[str], available: dict[str, list[str]]) -> str:
    """Store the loggers ``names`` as one option, with each under its own name, and return its name. Raises ConfigError."""
    name = "_".join(names)
    if name not in available["logger"]:
        ConfigStore.instance().store(name, OmegaConf.create(several_of(names)), "logger")
        available["logger"].append(name)
    return name
