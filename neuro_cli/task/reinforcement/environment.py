"""Factory of gymnasium's environments, and the spaces of their observations and actions."""

import logging
import pkgutil
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import packages_distributions, version
from pathlib import PurePath
from types import ModuleType
from typing import Any

import numpy as np

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.messages.did_you_mean import closest
from neuro_cli.core.messages.install import install
from neuro_cli.task.reinforcement.wrappers import BARE, Wrapping

log = logging.getLogger(__name__)

INSTALL = install("rl")
USUAL = 1e6  # a bound beyond it stands for none
_MAKING = threading.Lock()  # the filters of warnings are of all threads
_SAID: set[tuple[str, str]] = set()


@dataclass(frozen=True)
class Spaces:
    """Spaces of an environment: the ``shape`` of an observation, and its actions.

    Either ``actions`` > 0 choices numbered from ``first``, or ``actions`` = 0 and a vector between ``low`` and ``high`` (A,),
    which have the dtype of the environment's Box. ``scaled``: outputs from -1 to 1 span that Box.
    """

    shape: tuple[int, ...]
    actions: int
    first: int
    low: np.ndarray
    high: np.ndarray
    scaled: bool = False

    @property
    def inputs(self) -> int:
        """Count of numbers in an observation."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def outputs(self) -> int:
        """Count of a policy's outputs: a preference for every choice, or the action itself."""
        return self.actions or len(self.low)

    def with_scale(self, asked: bool | None) -> "Spaces":
        """Return the spaces with scaled actions; None: if the Box has bounds of a usual size. Raises ConfigError."""
        bounds = np.concatenate([self.low, self.high]).astype(np.float64)
        if asked and (self.actions or not np.isfinite(bounds).all()):
            acts = f"Discrete({self.actions})" if self.actions else "numbers without bounds"
            raise ConfigError("task.scale_actions", True, f"needs actions in a Box with bounds, not {acts}")
        usual = not self.actions and bool((np.abs(bounds) < USUAL).all())
        return replace(self, scaled=usual if asked is None else asked)


# packages that register environments, by the namespace or the beginning of their ids
HOMES = {
    "ALE/": "ale_py",
    "dm_control/": "shimmy",
    "PyFlyt/": "PyFlyt.gym_envs",
    "Meta-World/": "metaworld",
    "MiniGrid-": "minigrid",
    "Fetch": "gymnasium_robotics",
    "PointMaze": "gymnasium_robotics",
    "mo-": "mo_gymnasium",
}


class EnvironmentFactory:
    """Factory of equal environments ``identifier``, each in its ``wrapping``.

    ``max_steps``: step limit of an episode (``task.max_steps``), None: the environment's own.
    """

    def __init__(self, identifier: str, max_steps: int | None, options: dict[str, Any], wrapping: Wrapping = BARE) -> None:
        self.identifier, self.max_steps, self.options, self.wrapping = identifier, max_steps, options, wrapping

    def make(self) -> Any:
        """Create an environment. Raises UserError: no such environment, or a package that it needs is missing."""
        try:
            import gymnasium
        except ImportError as error:
            raise UserError(f"task.id={self.identifier}: gymnasium is not installed: {INSTALL}") from error
        _refuse_unversioned(self.identifier)
        limit = {} if self.max_steps is None else {"max_episode_steps": self.max_steps}
        try:
            with quiet(self.identifier), warnings_as_lines(self.identifier):
                environment = gymnasium.make(self.identifier, disable_env_checker=True, **limit, **self.options)
        except gymnasium.error.DependencyNotInstalled as error:
            raise UserError(f"task.id={self.identifier}: {_first(error)}; {INSTALL} brings what it needs") from error
        except gymnasium.error.UnregisteredEnv as error:
            raise ConfigError("task.id", self.identifier, f"no such environment; {_hint(self.identifier)}") from error
        except ModuleNotFoundError as error:
            raise ConfigError("task.id", self.identifier, _absent(error, self.identifier)) from error
        except (gymnasium.error.Error, ImportError, TypeError) as error:
            raise ConfigError("task.id", self.identifier, f"cannot be made: {_first(error)}") from error
        except Exception as error:  # packages of unmatched versions may fail in any way
            raise ConfigError("task.id", self.identifier, f"cannot be made: {reason(error, self.identifier)}") from error
        _refuse_unversioned(self.identifier)  # the package has registered it now
        return self.wrapping.around(environment)

    def packages(self) -> tuple[str, ...]:
        """Return top-level names of the modules that define the environment's class, and of those that these import."""
        import gymnasium

        # an id may name the module that registers it, as "module:Name-v0"; an environment was made, so it is imported
        entry = gymnasium.spec(_name(self.identifier)).entry_point
        result = pkgutil.resolve_name(entry) if isinstance(entry, str) else entry
        classes = getattr(result, "__mro__", (result,))
        modules = [module for each in classes if (module := sys.modules.get(getattr(each, "__module__", ""))) is not None]
        names = {module.__name__ for module in modules}
        names |= {value.__name__ for module in modules for value in vars(module).values() if isinstance(value, ModuleType)}
        return tuple(sorted({name.partition(".")[0] for name in names} - sys.stdlib_module_names))

    def survival_bonus(self) -> float:
        """Return what a MuJoCo robot of gymnasium that is paid for its way gets for each step without a fall; 0 for others."""
        environment = self.make()
        environment.close()
        plain = environment.unwrapped
        pays = {"_forward_reward_weight", "_healthy_reward"} <= vars(plain).keys()
        return float(plain._healthy_reward) if pays and type(plain).__module__.startswith("gymnasium.envs.mujoco.") else 0.0

    def spaces(self) -> Spaces:
        """Look at an environment. Raises UserError for spaces that are not served."""
        environment = self.make()
        environment.close()
        return spaces_of(self.identifier, environment.observation_space, environment.action_space)


def spaces_of(identifier: str, seen: Any, acts: Any) -> Spaces:
    """Return the spaces of observations ``seen`` and actions ``acts`` of gymnasium. Raises ConfigError: not served."""
    from gymnasium.spaces import Box, Discrete

    if not isinstance(seen, Box):
        raise ConfigError("task.id", identifier, f"observations must be a Box of numbers, not {seen}: task.wrappers may make one")
    empty = np.empty(0, np.float32)
    if isinstance(acts, Discrete):
        return Spaces(tuple(seen.shape), int(acts.n), int(acts.start), empty, empty)
    if not isinstance(acts, Box) or len(acts.shape) != 1:
        raise ConfigError("task.id", identifier, f"actions must be Discrete or a vector (Box), not {acts}")
    low, high = (np.asarray(bound, acts.dtype) for bound in (acts.low, acts.high))
    return Spaces(tuple(seen.shape), 0, 0, low, high)


def _name(identifier: str) -> str:
    """Return the id without the module that registers it, as in ``module:Name-v0``."""
    return identifier.rpartition(":")[2]


def _refuse_unversioned(identifier: str) -> None:
    """Raise ConfigError for an id without a version: gymnasium takes the newest, which another release changes."""
    from gymnasium.envs.registration import find_highest_version, parse_env_id, registry

    name = _name(identifier)
    if name in registry or not re.fullmatch(r"(\w+/)?[\w.-]+", name):
        return
    space, base, version = parse_env_id(name)
    newest = find_highest_version(space, base) if version is None else None
    if newest is not None:
        raise ConfigError("task.id", identifier, f"must have a version; the newest is {identifier}-v{newest}")


def _hint(identifier: str) -> str:
    """Say which environments have a name like ``identifier``, and which package has it."""
    import gymnasium

    module, colon, name = identifier.rpartition(":")
    start = next((start for start in HOMES if name.lower().startswith(start.lower())), None)
    if start is not None and not colon:
        rest = name[len(start) :]
        rest = rest if name.startswith(start) else rest[:1].upper() + rest[1:]
        return f"the package {HOMES[start]} has it: task.id={HOMES[start]}:{start}{rest}"
    known = {
        each.lower(): each
        for each, spec in gymnasium.registry.items()
        if not colon or (_package(spec.entry_point) == "gymnasium") == (_package(module) == "gymnasium")
    }
    # a version in common makes no names alike: Pong-v5 is not near Ant-v5
    bases = {each: each.rpartition("-v")[0] or each for each in known}
    alike = closest(re.sub(r"-v\d*$", "", name.lower()), set(bases.values()), len(bases))
    close = [f"{module}{colon}{known[each]}" for each in closest(name.lower(), [each for each in known if bases[each] in alike])]
    near = f"did you mean {' or '.join(close)}?"
    if colon:
        call = "if it has a function for that, let a module of yours call it: task.id=my_module:Name-v0"
        return near if close else f"the import of {module} registers none of that name; {call}"
    return f"{near} " * bool(close) + "environments of a package, or of your module, begin with its name: ale_py:ALE/Pong-v5"


def _absent(error: ModuleNotFoundError, identifier: str) -> str:
    """Say which module is not installed: the one that registers the environment, or one that it imports."""
    cause: BaseException | None = error
    while isinstance(cause, ModuleNotFoundError) and not cause.name:
        cause = cause.__cause__ or cause.__context__  # gymnasium's own error has no name
    module, home = getattr(cause, "name", None), identifier.rpartition(":")[0]
    if module is None:
        return f"cannot be made: {_first(error)}"
    if module != home.partition(".")[0]:
        return f"cannot be made without the module {module}: install the package that has it"
    known = module in {each.partition(".")[0] for each in HOMES.values()}
    how = f"pip install {module.replace('_', '-')}" if known else "install the package that has it"
    return f"no module {module} is installed or in this folder: {how}"


def _package(entry: Any) -> str:
    """Return the package of an entry point, which is a dotted name or a callable."""
    return str(entry if isinstance(entry, str) else getattr(entry, "__module__", "")).partition(":")[0].partition(".")[0]


@contextmanager
def quiet(identifier: str) -> Iterator[None]:
    """Send MuJoCo's warnings about gymnasium's model files to the log: they would appear once for every environment."""
    import gymnasium

    spec = gymnasium.registry.get(identifier)
    if spec is None or "mujoco" not in str(spec.entry_point):
        yield
        return
    try:
        import mujoco
    except ImportError:
        yield  # gymnasium.make reports it
        return
    handler = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda text: log.debug("%s: %s", identifier, text))
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(handler)


@contextmanager
def warnings_as_lines(identifier: str) -> Iterator[None]:
    """Log each warning as one line without colours, once a process: a version of an environment that is out of date."""
    with _MAKING, warnings.catch_warnings(record=True) as caught:
        yield
    for text in dict.fromkeys(" ".join(re.sub(r"\x1b\[\d*m", "", str(each.message)).split()) for each in caught):
        if (identifier, text) not in _SAID:
            _SAID.add((identifier, text))
            log.warning("task.id=%s: %s", identifier, text.removeprefix("WARN: "))


def reason(error: BaseException, identifier: str) -> str:
    """Say what failed in an environment's code, where, and the versions of its packages."""
    import gymnasium

    last = traceback.extract_tb(error.__traceback__)[-1]
    spec = gymnasium.registry.get(_name(identifier))
    root = str(spec.entry_point if spec is not None else identifier).partition(":")[0].partition(".")[0]
    homes = packages_distributions()
    packages = sorted({name for module in ("gymnasium", "mujoco", root) for name in homes.get(module, ())})
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    kind, text = type(error).__name__, _first(error)
    said = kind if text == kind else f"{kind}: {text}"
    return f"{said} ({PurePath(last.filename).name}:{last.lineno}; {versions})"


def _first(error: BaseException) -> str:
    """Return the first sentence of an error of gymnasium, without its advice on other packages."""
    return (" ".join(str(error).split()).split(", run ")[0] or type(error).__name__)[:200]
