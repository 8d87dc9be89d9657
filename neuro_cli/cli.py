"""The command ``neuro``: verbs, and one ``hydra.main`` for each verb that Hydra runs.

    neuro train algo=snes population=128        neuro resume RUN        neuro doctor

Under an MPI launcher rank 0 runs this; the other ranks wait for what it hands out.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from neuro_cli import __version__
from neuro_cli.core.errors import ConfigError, UserError, nearest, report
from neuro_cli.fabric.mpi import launched, mpi_world
from neuro_cli.overrides import checked, config_folder, groups, option_of, parse_plain

CONFIG_FOLDER = str(config_folder())

RESUME_KEYS = (
    "generations",
    "time_limit",
    "threads",
    "device",
    "ranks",
    "checkpoint.every",
    "checkpoint.keep",
    "evaluate.every",
    "task.root",
    "task.download",
    "distribution.ranks_shaping",
)
RESUME_GROUPS = ("distribution", "fabric", "logger")


@hydra.main(version_base="1.3", config_path=CONFIG_FOLDER, config_name="train")
def train_main(config: DictConfig) -> None:
    try:
        resolved = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        assert isinstance(resolved, dict)
        run = Path(HydraConfig.get().runtime.output_dir)
        # resolved: a resume with more generations must not stretch the schedules that refer to them
        OmegaConf.save(OmegaConf.create(resolved), run / ".hydra" / "config.yaml")
        code = start({str(key): value for key, value in resolved.items()}, _shown(run))
    except (UserError, OmegaConfBaseException) as error:
        code = report(error if isinstance(error, UserError) else UserError(str(error).splitlines()[0]))
    if code:
        sys.exit(code)


@hydra.main(version_base="1.3", config_path=CONFIG_FOLDER, config_name="bench")
def bench_main(config: DictConfig) -> None:
    from neuro_cli.runner.bench import bench

    try:
        resolved = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        assert isinstance(resolved, dict)
        bench({str(key): value for key, value in resolved.items()}, Path(HydraConfig.get().runtime.output_dir))
    except (UserError, OmegaConfBaseException) as error:
        sys.exit(report(error if isinstance(error, UserError) else UserError(str(error).splitlines()[0])))


def _shown(run: Path) -> Path:
    """The folder as a user would type it: relative to the working directory when below it."""
    return run.relative_to(Path.cwd()) if run.is_relative_to(Path.cwd()) else run


def start(config: dict[str, Any], run: Path, checkpoint: Any = None, again: list[str] | None = None) -> int:
    """Train on this process's world, or start the world that ``ranks`` asks for. Returns the exit code."""
    from neuro_cli.runner.build import check_root, world_for
    from neuro_cli.runner.launch import launch
    from neuro_cli.runner.session import lead

    check_root(config)
    if config["ranks"] is not None and not launched():
        return launch(config["ranks"], again or ["start", str(run)])
    world = world_for(config)
    if config["ranks"] not in (None, world.size):
        raise ConfigError("ranks", config["ranks"], f"the launcher started {world.size}; leave it null there")
    code = lead(world, config, run, checkpoint)
    if code == 0:
        print(f"neuro: results in {run}")
    return code


def start_verb(arguments: list[str]) -> int:
    """Internal: train the run folder whose config is written but which has not begun (how ``ranks=N`` begins)."""
    from neuro_cli.runner.runs import read_config

    run = Path(arguments[0])
    # the folder was made by the command that calls this one, so its targets are what the user just typed
    return start(read_config(run, trust=None), run)


def resume_verb(arguments: list[str]) -> int:
    from neuro_cli.runner.runs import read_checkpoint, read_config, write_resumed

    options = _arguments("resume", arguments)
    changes, generation, trust = _resume_arguments(options.overrides)
    config = read_config(options.run, trust)
    for key, value in changes.items():
        set_key(config, key, value)
    checkpoint = read_checkpoint(options.run, config, generation)
    if config["generations"] < checkpoint.generation:
        raise ConfigError("generations", config["generations"], f"the checkpoint has {checkpoint.generation} already")
    if changes:
        write_resumed(options.run, config)
    again = ["resume", str(options.run), *[text for text in arguments[1:] if not text.startswith("ranks=")]]
    return start(config, options.run, checkpoint, again)


def _resume_arguments(overrides: list[str]) -> tuple[dict[str, Any], int | None, list[str]]:
    changes: dict[str, Any] = {}
    generation, trust = None, []
    for text in overrides:
        key, value = parse_plain(text)
        if key == "checkpoint":
            generation = value
        elif key == "trust":
            trust = [str(name) for name in (value if isinstance(value, list) else [value])]
        elif key in RESUME_GROUPS:
            changes[key] = option_of(key, value)
        elif key in RESUME_KEYS:
            changes[key] = value
        else:
            allowed = ", ".join([*RESUME_GROUPS, *RESUME_KEYS, "checkpoint", "trust"])
            raise ConfigError(key, value, f"a resumed run keeps it; what can change: {allowed}")
    return changes, generation, trust


def set_key(config: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key of a nested config."""
    *parents, last = key.split(".")
    for parent in parents:
        config = config[parent]
    config[last] = value


def evaluate_verb(arguments: list[str]) -> int:
    from neuro_cli.runner.evaluate import evaluate

    options = _arguments("evaluate", arguments)
    generation, trust, changes = None, [], {}
    for text in options.overrides:
        key, value = parse_plain(text)
        if key == "checkpoint":
            generation = value
        elif key == "trust":
            trust = [str(name) for name in (value if isinstance(value, list) else [value])]
        elif key in ("task.root", "task.download", "device", "threads"):
            changes[key] = value
        else:
            raise ConfigError(key, value, "evaluate takes checkpoint, trust, task.root, task.download, device, threads")
    evaluate(options.run, generation, trust, changes)
    return 0


def _arguments(verb: str, arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(f"neuro {verb}", description=VERBS[verb][1])
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder, for example outputs/train/<stamp>")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    return parser.parse_args(arguments)


def doctor_verb(arguments: list[str]) -> int:
    from neuro_cli.runner.doctor import doctor

    argparse.ArgumentParser("neuro doctor", description=VERBS["doctor"][1]).parse_args(arguments)
    return doctor()


def _hydra_verb(main: Callable[[], Any]) -> Callable[[list[str]], int]:
    def verb(arguments: list[str]) -> int:
        name = main.__name__.removesuffix("_main")
        arguments = [f"what={arguments[0]}", *arguments[1:]] if _is_word(name, arguments) else arguments
        sys.argv = [f"neuro {name}", *checked(name, arguments)]
        GlobalHydra.instance().clear()
        main()
        return 0

    return verb


def _is_word(name: str, arguments: list[str]) -> bool:
    return name == "bench" and bool(arguments) and "=" not in arguments[0] and not arguments[0].startswith("-")


VERBS: dict[str, tuple[Callable[[list[str]], int], str]] = {
    "train": (_hydra_verb(train_main), "Train a network. Options by Hydra: neuro train --help"),
    "bench": (_hydra_verb(bench_main), "Measure: neuro bench generation"),
    "resume": (resume_verb, "Go on with a run from its last checkpoint, on any number of ranks."),
    "evaluate": (evaluate_verb, "Score a run's trained network on the test set."),
    "doctor": (doctor_verb, "Say what this machine has, what is missing and the command that fixes it."),
}


def help_text() -> str:
    verbs = "\n".join(f"  {name:10s} {text}" for name, (_, text) in VERBS.items())
    options = "\n".join(f"  {name:14s} {', '.join(values)}" for name, values in groups().items() if values)
    return f"""neuro {__version__}: distributed neuroevolution, every choice a Hydra config

usage: neuro VERB [group=option ...] [key=value ...]

verbs
{verbs}

groups of neuro train
{options}

examples
  neuro train                                            a small network on the bundled digits
  neuro train +algo=snes model=MNIST_30K task=mnist task.download=true
  mpiexec -n 2 neuro train distribution=chromosome_updates
  neuro train -m algo=openai_es,snes seed=1,2            a sweep
  neuro resume outputs/train/<stamp>

A line `neuro: error:` names what to change; NEURO_DEBUG=1 adds the traceback. Exit codes: 0 done, 2 bad input, 1 failed."""


def dispatch(arguments: list[str]) -> int:
    """Run one command line on rank 0 and return its exit code."""
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(help_text())
        return 0
    if arguments[0] == "--version":
        print(f"neuro {__version__}")
        return 0
    verb, rest = arguments[0], arguments[1:]
    if verb == "start":
        return start_verb(rest)
    if verb not in VERBS:
        raise UserError(f"{verb}: no such verb; {nearest(verb, VERBS)}")
    return VERBS[verb][0](rest)


def main() -> None:
    """Entry point of the console script."""
    world = None
    code: int = 1
    if launched():
        try:
            world = mpi_world()
        except UserError as error:
            sys.exit(report(error))
        if world.rank > 0:
            from neuro_cli.runner.session import follow

            sys.exit(follow(world))
    try:
        code = dispatch(sys.argv[1:])
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except UserError as error:
        code = report(error)
    finally:
        if world is not None and world.size > 1:
            from neuro_cli.runner.session import dismiss

            dismiss(world, code)
    sys.exit(code)
