"""Checks the command line before Hydra: ``+group=x`` means ``group=x``, and an error for a misspelt word names the nearest.

Hydra takes ``+alg=snes`` as a new value and runs the default; its other messages take a page. So the overrides are
checked here against the composed config, and Hydra gets only what it will accept.
"""

import copy
import re
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

from hydra import compose
from hydra._internal.utils import get_args_parser
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from neuro_cli.cli.config_tree import ConfigTree, tree_of
from neuro_cli.cli.groups import TABLES, defaults_of, groups, groups_of, options_in, sections_of, several_of
from neuro_cli.core.errors import ConfigError, UserError, nearest
from neuro_cli.core.install import install
from neuro_cli.launch import slurm, slurm_sweep
from neuro_cli.launch.option_files import remember
from neuro_cli.run_folder.sweep_record import FILE as SWEEP_RECORD

# files that mark the folder of a run or a sweep
RUN_FILES = {".hydra", "metrics.csv", "checkpoints", "summary.json", "multirun.yaml"}

# options that packages named hydra-NAME-launcher and hydra-NAME-sweeper bring; some are in an extra of ours
PLUGINS = {"launcher": ("ray", "rq", "submitit"), "sweeper": ("ax", "nevergrad")}
IN_EXTRA, EXTRA = {"launcher": ("joblib",), "sweeper": ("optuna",)}, "sweep"

CONTINUES = ("reproduce",)  # verbs whose command goes on where its folder ended


def _known(tree: ConfigTree) -> dict[str, list[str]]:
    """Groups and their options, those of the user's own folders among them."""
    if not tree.more:
        return groups()
    found = groups() | {name: [] for name in tree.own_groups}
    return {name: sorted({*options, *tree.options(name)}) for name, options in found.items()}


@dataclass(frozen=True)
class Checked:
    """Arguments for Hydra. ``composed``: the config that they give (a sweep's first job); None for a user's config tree.

    ``shows``: they ask for help or the config, and nothing runs. ``whole``: ``composed`` is to the last key what Hydra composes
    of ``arguments``, its own settings included, so it need not do so again.
    """

    arguments: list[str]
    composed: DictConfig | None
    shows: bool = False
    whole: bool = False


def checked(verb: str, arguments: list[str], goes_on: Callable[[Path], bool] = lambda _: False) -> Checked:
    """Check the arguments of a Hydra verb. Raises UserError for unknown groups, options and keys.

    ``goes_on``: whether the sweep in a folder is one that this command began.
    """
    tree = tree_of(verb, _parsed(arguments))
    known = _known(tree) | ({TABLES: options_in(TABLES)} if verb == "reproduce" else {})
    arguments = [_with_stored_files(text, known) for text in arguments]
    parsed = _parsed(arguments)
    for text, override in zip(list(parsed.overrides), map(_parse, parsed.overrides), strict=True):
        if _is_default_null(verb, override, known):  # Hydra takes null in a defaults list, and not for an override
            arguments.remove(text)
            parsed.overrides.remove(text)
    # flags first in what Hydra gets: its own parser refuses an override on both sides of -m
    flags = list(arguments)
    for text in parsed.overrides:
        flags.remove(text)
    overrides = [_parse(text) for text in parsed.overrides]
    name = f"hydra.job.name={verb}"  # Hydra would take it from the file of its main function
    if parsed.config_path:
        # another config tree in place of ours, with options and keys of its own: Hydra checks it
        texts = [_bare(o) if o.key_or_group in known else str(o.input_line) for o in overrides]
        return Checked([*flags, name, *texts], None)
    texts, full = _at_once(tree, flags, [name], overrides, known)
    whole = full is not None
    if full is None:
        hydras = [str(o.input_line) for o in overrides if _is_hydras(o, known) and not _sweeps(o)]
        bases = [_compose(tree, [*choices, *hydras]) for choices in _choices(overrides, known)]
        texts = [_checked_key(override, bases, known, tree) for override in overrides]
        # a sweep's first job stands for all: values are checked by the job itself
        values = [o for o in overrides if not (o.key_or_group in known or _is_hydras(o, known) or _sweeps(o))]
        full = _with_values(bases[0], values)
    on_slurm = OmegaConf.select(full, "hydra.launcher._target_") == slurm_sweep.LAUNCHER
    if not (parsed.cfg or parsed.info):
        _check_launcher(full, bool(parsed.multirun), tree)
    subfolder = OmegaConf.select(full, "hydra.output_subdir")
    if subfolder != ".hydra":
        raise ConfigError("hydra.output_subdir", subfolder, "stays .hydra: resume, evaluate and report read a run's config there")
    if verb not in CONTINUES:
        _refuse_existing(full, bool(parsed.multirun), goes_on)
    _check_sweeps([override for override in overrides if _sweeps(override)], bool(parsed.multirun))
    shows = any((parsed.help, parsed.hydra_help, parsed.cfg, parsed.info, parsed.shell_completion))
    return Checked([*flags, name, *texts, *(_tasks(full, overrides) if on_slurm else [])], full, shows, whole and not on_slurm)


def _at_once(
    tree: ConfigTree, flags: list[str], first: list[str], overrides: list[Override], known: dict[str, list[str]]
) -> tuple[list[str], DictConfig | None]:
    """Texts of plain overrides for Hydra, and the config that it makes of ``first`` and them; None where keys must be checked.

    Plain: without flags, each chooses an option of a known group or sets a key that is there. Hydra refuses other keys; what
    is wrong with them is then found by composing without the values.
    """
    texts = [str(o.input_line) if o.key_or_group in tree.own_groups else _bare(o) for o in overrides]
    if flags or not all(_is_plain(override, known) for override in overrides):
        return texts, None
    single = {o.key_or_group for o in overrides if "." not in o.key_or_group} - known.keys()
    if single and not single.isdisjoint(sections_of(tree.name)):
        return texts, None  # a value in place of keys
    _choices(overrides, known)  # refuses what is no option
    try:
        with tree.loaded():
            return texts, compose(tree.name, [*first, *texts], return_hydra_config=True)
    except (HydraException, OmegaConfBaseException):
        return texts, None


def _is_plain(override: Override, known: dict[str, list[str]]) -> bool:
    key = override.key_or_group
    if not key or _sweeps(override) or override.is_delete() or "@" in str(override.input_line).partition("=")[0]:
        return False
    if key in known:
        return True
    return not (override.is_add() or override.is_force_add() or key.startswith("hydra/") or key == "hydra.mode")


def _check_launcher(full: DictConfig, multirun: bool, tree: ConfigTree) -> None:
    """Raise ConfigError where the chosen launcher of a sweep's jobs cannot work."""
    launcher = OmegaConf.select(full, "hydra.launcher._target_")
    if launcher == slurm_sweep.LAUNCHER:
        slurm_sweep.check(multirun)
    if launcher == slurm_sweep.BROKER_LAUNCHER:
        slurm_sweep.check_broker(multirun, OmegaConf.select(full, "hydra.launcher.nameserver"))
        if tree.paths:
            allowed = "its workers have no --config-dir and no hydra.searchpath: name an option's file, algo=FOLDER/mine.yaml"
            raise ConfigError("hydra/launcher", "broker", allowed)


def _check_sweeps(sweeps: list[Override], multirun: bool) -> None:
    """Raise UserError for a sweep without -m, and for one without a value."""
    if sweeps and not multirun:
        raise UserError(f"{sweeps[0].input_line}: a sweep over several values needs -m (or quotes, if it is one value)")
    for override in sweeps:
        lists = override.is_discrete_sweep() and not isinstance(override.value(), Glob)  # patterns of options are checked
        if lists and not any(True for _ in override.sweep_string_iterator()):
            raise UserError(f"{override.input_line}: it has no value, so the sweep would have no job")


def _is_default_null(verb: str, override: Override, known: dict[str, list[str]]) -> bool:
    """Tell whether the override chooses no option of a group that has none by default. Raises ConfigError in a sweep."""
    group = override.key_or_group
    if group not in known or defaults_of(verb).get(group, "") is not None or override.is_delete():
        return False
    if _sweeps(override) and {"None", "null"} & set(_values(override, known[group])):
        raise ConfigError(group, "null", "a sweep chooses options; runs without one are a sweep of their own")
    return not _sweeps(override) and override.value() is None


def _with_stored_files(text: str, known: dict[str, list[str]]) -> str:
    """Replace ``model=FOLDER/NAME.yaml``: the file becomes an option of its group, named NAME, which the override chooses.

    ``known`` has it afterwards. Raises ConfigError for a file that is not there or is no option.
    """
    key, equals, values = text.partition("=")
    group = key.lstrip("+")
    if group not in known or not equals:
        return text
    if group == "logger" and (listed := re.fullmatch(r"\[([\w, ]*)\]", values)):
        return f"{key}={_several(re.split(r'[, ]+', listed[1].strip(' ,')), known)}"
    # a list's brackets stay where they are, in a sweep of lists too
    parts = re.split(r"([\[\],])", values)
    return f"{key}={''.join(_stored(group, Path(part), known) if part.endswith('.yaml') else part for part in parts)}"


def _stored(group: str, file: Path, known: dict[str, list[str]]) -> str:
    """Name by which Hydra finds ``file`` among the options of ``group``: that of the file, numbered if it is taken."""
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
    stem = re.sub(r"\W", "_", file.stem)  # it becomes a key
    names = (f"{stem}_{number}" if number > 1 else stem for number in count(1))
    name = next(name for name in names if name not in known[group])
    ConfigStore.instance().store(name, node, group, f"tables.{name}" if group == TABLES else None)
    known[group].append(name)
    remember(f"{group}={name}", f"{group}={file}")
    return name


def _several(names: list[str], known: dict[str, list[str]]) -> str:
    """Name by which Hydra finds the loggers ``names`` as one option, which has each under its own name. Raises ConfigError."""
    name = "_".join(names)
    if name not in known["logger"]:
        ConfigStore.instance().store(name, OmegaConf.create(several_of(names)), "logger")
        known["logger"].append(name)
        remember(f"logger={name}", f"logger=[{','.join(names)}]")
    return name


def _tasks(full: DictConfig, overrides: list[Override]) -> list[str]:
    """Override by which SLURM gives each job room for its ranks; all jobs are one array and get the same."""
    key = "hydra.launcher.additional_parameters.ntasks"
    if any(override.key_or_group == key for override in overrides):
        return []
    swept = [value for override in overrides if override.key_or_group == "ranks" for value in _values(override, [])]
    ranks = [int(value) for value in (*swept, str(OmegaConf.select(full, "ranks"))) if value.isdigit()]
    return [f"{key}={max(ranks, default=1)}"]


def _parsed(arguments: list[str]) -> Namespace:
    """Parse Hydra's flags and the overrides. Raises UserError for an unknown flag."""
    parser = get_args_parser()
    parser.error = _refuse_flag  # type: ignore[method-assign]
    parsed = parser.parse_intermixed_args(arguments)
    modes = [mode for mode in ("run", "multirun", "cfg", "info", "shell_completion") if getattr(parsed, mode)]
    if len(modes) > 1:
        _refuse_flag(f"--{' and --'.join(modes)} exclude each other")
    return parsed


def _refuse_flag(message: str) -> NoReturn:
    raise UserError(f"{message}; neuro train --hydra-help lists the flags")


def _bare(override: Override) -> str:
    return str(override.input_line).lstrip("+")


def _parse(text: str) -> Override:
    try:
        return OverridesParser.create().parse_override(text)
    except HydraException as error:
        raise UserError(f"{text}: not an override of the form key=value ({str(error).splitlines()[0]})") from error


def _sweeps(override: Override) -> bool:
    return bool(override.is_sweep_override())


def _values(override: Override, known: list[str]) -> list[str]:
    value = override.value()
    if isinstance(value, Glob):
        return list(value.filter(known))
    if isinstance(value, list):
        return [f"[{','.join(map(str, value))}]"]
    if override.is_choice_sweep() or override.is_range_sweep():
        return [str(value) for value in override.sweep_string_iterator()]
    return [str(value)]


def _choices(overrides: list[Override], known: dict[str, list[str]]) -> list[list[str]]:
    """Group choices of a sweep's first job, then the same with each other option of a swept group in turn."""
    options = [_options(override, known) for override in overrides if override.key_or_group in known]
    options = [values for values in options if values]
    first = [values[0] for values in options]
    return [first] + [[*first[:i], value, *first[i + 1 :]] for i, values in enumerate(options) for value in values[1:]]


def _options(override: Override, known: dict[str, list[str]]) -> list[str]:
    """Pairs ``group=option`` that the override chooses. Raises UserError for an unknown option."""
    name = override.key_or_group
    if override.is_delete():
        return []
    values = _values(override, known[name])
    if not values:
        raise UserError(f"{override.input_line}: matches no option; {nearest('', known[name])}")
    for value in values:
        for option in re.split(r",\s*", value.strip("[]")) if name == TABLES else [value]:
            if option not in known[name]:
                raise ConfigError(name, option, f"no such option; {nearest(option, known[name])}")
    # a group of the user's own folder is in no defaults list, so it keeps its +
    plus = "+" if override.is_add() and name not in groups() and name != TABLES else ""
    return [f"{plus}{name}={value}" for value in values]


def _compose(tree: ConfigTree, overrides: list[str]) -> DictConfig:
    try:
        with tree.loaded():
            return compose(tree.name, overrides, return_hydra_config=True)
    except (HydraException, OmegaConfBaseException) as error:
        if found := re.match(r"Could not override '(\w+)'\.\s+No match in the defaults list", str(error)):
            value = next(text.partition("=")[2] for text in overrides if text.startswith(f"{found[1]}="))
            raise ConfigError(found[1], value, f"neuro {tree.name} has no such group; it has {_named(tree.name)}") from error
        if found := re.match(r"In 'hydra/config': Could not find 'hydra/(launcher|sweeper)/(\w+)'", str(error)):
            raise _no_plugin(found[1], found[2], str(error)) from error
        if str(error).startswith("Cannot find primary config"):
            raise UserError(f"--config-name {tree.name}: there is no {tree.name}.yaml among neuro's configs or yours") from error
        # where Hydra has looked takes lines, and tells a user of neuro nothing
        raise UserError(" ".join(str(error).partition("Config search path")[0].split())) from error


def _no_plugin(kind: str, name: str, said: str) -> ConfigError:
    """Error for a launcher or a sweeper that is not there, with the package that brings it where there is one."""
    valid = said.partition("Available options in")[2].partition("Config search path")[0].split()[1:]
    if name in IN_EXTRA[kind]:
        return ConfigError(f"hydra/{kind}", name, f"is not installed: {install(EXTRA)}")
    package = f"; it comes with: pip install hydra-{name}-{kind}" if name in PLUGINS[kind] else ""
    return ConfigError(f"hydra/{kind}", name, f"no such option; {nearest(name, valid)}{package}")


def _named(verb: str) -> str:
    """Groups of a verb, as a message lists them."""
    return ", ".join(sorted(group for group in groups_of(verb) if "@" not in group))


def _is_hydras(override: Override, known: dict[str, list[str]]) -> bool:
    """Tell whether the override is of Hydra's own settings, or takes a group out of the defaults."""
    removes = override.is_delete() and override.key_or_group in known
    return removes or override.key_or_group.startswith(("hydra.", "hydra/"))


def _with_values(base: DictConfig, overrides: list[Override]) -> DictConfig:
    """Copy of ``base`` with the values of ``overrides``, which saves composing it again. Raises UserError."""
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


def _checked_key(override: Override, bases: list[DictConfig], known: dict[str, list[str]], tree: ConfigTree) -> str:
    """Text of the override with the prefix that Hydra needs. Raises UserError for an unknown key.

    ``bases``: the config with the chosen options, one for every option of a sweep.
    """
    text, key, bare = str(override.input_line), override.key_or_group, _bare(override)
    if override.is_delete() or "@" in text.split("=")[0] or key.startswith("hydra/"):
        return text
    if key in known:
        return text if key in tree.own_groups else bare
    if key.startswith("hydra."):
        return text
    base = next((config for config in bases if not _exists(config, key)), bases[0])
    there = _exists(base, key)
    if override.is_add() or override.is_force_add():
        if there:
            return bare
        if "." not in key:
            words = [*known, *(str(name) for name in base if name != "hydra")]
            raise ConfigError(f"+{key}", "=".join(text.split("=")[1:]), f"no such group or key; {nearest(key, words)}")
        parent = key.rsplit(".", 1)[0]
        if not _exists(base, parent):
            keys = _keys(base)
            nodes = [node for node in keys if any(other.startswith(f"{node}.") for other in keys)]
            raise UserError(f"{text}: there is no {parent}; {nearest(parent, nodes)}")
        return text if len(bases) == 1 else f"++{bare}"  # an option of a sweep may have it
    if there:
        _refuse_value_of_node(override, base)
        return text
    parent, _, last = key.rpartition(".")
    if last == "_target_" and parent and OmegaConf.select(base, parent, default=base) is None:
        return f"++{bare}"  # a class where there is none by default
    near = nearest(key, _keys(base) if "." in key else [*known, *(k for k in _keys(base) if "." not in k)])
    new = f"; a new one is added with +{key}=" if "." in key else ""
    raise ConfigError(key, "=".join(text.split("=")[1:]), f"no such key; {near}{new}")


def _refuse_value_of_node(override: Override, base: DictConfig) -> None:
    """Raise ConfigError for a plain value in place of keys: ``checkpoint=5`` would take all of them away."""
    node, value = OmegaConf.select(base, override.key_or_group), override.value()
    plain = isinstance(value, int | float | bool | list) or (isinstance(value, str) and "${" not in value)
    if isinstance(node, DictConfig) and len(node) and plain and not _sweeps(override):
        keys = ", ".join(f"{override.key_or_group}.{key}" for key in map(str, node))
        raise ConfigError(override.key_or_group, value, f"it has keys of its own: {keys}")


def _exists(config: DictConfig, key: str) -> bool:
    node: Any = config
    for part in key.split("."):
        if not isinstance(node, DictConfig) or part not in node:
            return False
        node = node._get_node(part)
    return True


def _keys(config: DictConfig) -> list[str]:
    """Dotted keys of the config, without Hydra's own."""
    found: list[str] = []

    def walk(node: Any, prefix: str) -> None:
        if isinstance(node, dict):
            for name, value in node.items():
                if prefix or name != "hydra":
                    found.append(f"{prefix}{name}")
                    walk(value, f"{prefix}{name}.")

    walk(OmegaConf.to_container(config, resolve=False), "")
    return found


def _refuse_existing(config: DictConfig, multirun: bool, goes_on: Callable[[Path], bool]) -> None:
    """Refuse an output folder that already holds a run, before Hydra writes into it."""
    if slurm.restarts():
        return  # the run of this job's earlier start: it goes on
    HydraConfig.instance().set_config(config)
    try:
        text = str(config.hydra.sweep.dir if multirun else config.hydra.run.dir)
    except OmegaConfBaseException:
        return  # depends on what only the job knows
    if not text.strip() or "\0" in text:
        key = "hydra.sweep.dir" if multirun else "hydra.run.dir"
        raise ConfigError(key, text, "must be a folder (for the present one: .)")
    folder = Path(text)
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if there & (RUN_FILES | {SWEEP_RECORD}) and multirun and not goes_on(folder):
        how = f"; go on with it by: neuro resume {folder}" if SWEEP_RECORD in there else ""
        raise ConfigError("hydra.sweep.dir", folder, f"a run or another sweep is there already; choose a new folder{how}")
    if multirun:
        return
    if there & RUN_FILES:
        raise ConfigError("hydra.run.dir", folder, f"a run is there already; go on with it by: neuro resume {folder}")


def parse_plain(text: str) -> tuple[str, Any]:
    """Parse a ``key=value`` argument of a verb that Hydra does not run as (key, value). Raises UserError."""
    override = _parse(text)
    if _sweeps(override) or override.is_delete():
        raise UserError(f"{text}: one plain key=value is allowed here")
    value = override.value()
    return override.key_or_group, value
