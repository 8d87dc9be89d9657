"""The command ``neuro``: verbs, and one ``hydra.main`` for each verb that Hydra runs.

    neuro train algo=snes population=128        neuro resume RUN        neuro doctor

Under an MPI launcher rank 0 runs this; the other ranks wait for what it hands out.
"""

import argparse
import atexit
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from neuro_cli import __version__
from neuro_cli.broker.kinds import JOB_VARIABLE
from neuro_cli.core.checks import integer
from neuro_cli.core.errors import BAD_INPUT, ConfigError, UserError, nearest, report
from neuro_cli.fabric.mpi import launched, mpi_world
from neuro_cli.overrides import checked, config_folder, groups, option_of, parse_plain, with_members
from neuro_cli.runner import slurm, stop
from neuro_cli.sweep import INTERRUPTED, swept

log = logging.getLogger(__name__)

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
    "task.environments",
    "task.evaluation_episodes",
    "distribution.ranks_shaping",
    "distribution.wire",
    "distribution.overlap",
    "distribution.encoding",
    "distribution.pieces",
    "algo.keep_last_step",
)
EVALUATE_KEYS = ("checkpoint", "trust", "task.root", "task.download", "task.evaluation_episodes", "device", "threads")
SEARCH_RESUME_KEYS = ("trainings", "time_limit", "best", "checkpoint.keep", "task.root", "task.download")
RESUME_GROUPS = ("distribution", "fabric", "logger")


@hydra.main(version_base="1.3", config_path=CONFIG_FOLDER, config_name="train")
def train_main(config: DictConfig) -> None:
    _job(config, _train)


@hydra.main(version_base="1.3", config_path=CONFIG_FOLDER, config_name="bench")
def bench_main(config: DictConfig) -> None:
    _job(config, _bench)


@hydra.main(version_base="1.3", config_path=CONFIG_FOLDER, config_name="scale")
def scale_main(config: DictConfig) -> None:
    _job(config, _scale)


@hydra.main(version_base="1.3", config_path=CONFIG_FOLDER, config_name="search")
def search_main(config: DictConfig) -> None:
    _job(config, _search)


def _job(config: DictConfig, work: Callable[[dict[str, Any], Path], int]) -> None:
    """Do ``work`` on the resolved config and the output folder. Errors are reported here: Hydra would print a page."""
    run = Path(HydraConfig.get().runtime.output_dir)
    sweeps = HydraConfig.get().mode == RunMode.MULTIRUN or JOB_VARIABLE in os.environ
    try:
        resolved = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        assert isinstance(resolved, dict)
        code = work(_completed(with_members({str(key): value for key, value in resolved.items()})), run)
    except Exception as error:
        code = report(_mendable(error))
    if code == BAD_INPUT and not sweeps:
        _take_back(run)
    if code and slurm.by_submitit():
        _fail_submitted(code)
    if code or (sweeps and stop.heard() and not slurm.by_submitit()):
        sys.exit(code or INTERRUPTED)  # a signal is for the sweep, not only for its present job


def _completed(config: dict[str, Any]) -> dict[str, Any]:
    """The config with what its task knows of its model: the saved one needs no task to be read."""
    from neuro_cli.runner.build import completed

    return completed(config)


class JobFailedError(Exception):
    """A job of a sweep on SLURM failed; its line is printed already."""


def _fail_submitted(code: int) -> NoReturn:
    """End a job on SLURM with ``code`` and a result that submitit finds at once, rather than none, for which it waits."""

    def leave() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    atexit.register(leave)
    raise JobFailedError(f"exit code {code}")


def _train(config: dict[str, Any], run: Path) -> int:
    # resolved: a resume with more generations must not stretch the schedules that refer to them
    from neuro_cli.runner.logs import log_to
    from neuro_cli.runner.restart import hand_over

    OmegaConf.save(OmegaConf.create(config), run / ".hydra" / "config.yaml")
    log_to(run, 0)
    code = start(config, _shown(run))
    hand_over(run, config["generations"])
    return code


def _bench(config: dict[str, Any], run: Path) -> int:
    from neuro_cli.runner.bench import bench

    bench(config, run, {"brokers": _bench_brokers})
    return 0


def _bench_brokers(config: dict[str, Any], run: Path) -> None:
    from neuro_cli.broker.packages import need_packages

    need_packages()
    from neuro_cli.broker.bench import bench_brokers

    bench_brokers(config, run)


def _scale(config: dict[str, Any], run: Path) -> int:
    from neuro_cli.runner.scale.scale import scale

    if launched():
        raise UserError("neuro scale starts its worlds itself: run it without a launcher")
    scale(config, run)
    return 0


def _search(config: dict[str, Any], run: Path) -> int:
    from neuro_cli.broker.roles import ROLES, serve
    from neuro_cli.runner.logs import log_to
    from neuro_cli.search.command import begin

    if launched():
        raise UserError("neuro search has workers of its own: run it without a launcher")
    if config["role"] in ROLES:
        log_to(run, 0)
        return serve(config)
    return begin(config, run, _shown(run), lambda whole: OmegaConf.save(OmegaConf.create(whole), run / ".hydra" / "config.yaml"))


def _take_back(run: Path) -> None:
    """Remove what was written for a run that never began, so that the mended command can have the folder."""
    if (run / "metrics.csv").exists() or (run / "checkpoints").exists():
        return
    for name in ("config", "hydra", "overrides"):
        (run / ".hydra" / f"{name}.yaml").unlink(missing_ok=True)
    (run / "log.txt").unlink(missing_ok=True)
    with suppress(OSError):  # not empty: the user's own files lie there
        (run / ".hydra").rmdir()
        run.rmdir()


def _mendable(error: Exception) -> Exception:
    """A UserError for what Hydra and the file system raise about the user's input; other errors as they are."""
    text = ""
    if isinstance(error, HydraException | OmegaConfBaseException):
        text = str(error).partition("\n")[0]
    elif isinstance(error, OSError):
        text = ": ".join(str(part) for part in (error.filename, error.strerror) if part)
    if not text:
        return error
    mendable = UserError(text)
    mendable.__cause__ = error
    return mendable


def _shown(run: Path) -> Path:
    """The folder as a user would type it: relative to the working directory when below it."""
    return run.relative_to(Path.cwd()) if run.is_relative_to(Path.cwd()) else run


def start(config: dict[str, Any], run: Path, checkpoint: Any = None, again: list[str] | None = None) -> int:
    """Train on this process's world, or start the world that ``ranks`` asks for. Returns the exit code."""
    from neuro_cli.runner.build import check_root, make_network, world_for
    from neuro_cli.runner.launch import launch
    from neuro_cli.runner.logs import messages
    from neuro_cli.runner.recover import recover
    from neuro_cli.runner.restart import checkpoint_left
    from neuro_cli.runner.session import lead

    check_root(config)
    if config["ranks"] is not None and not launched():
        code = launch(config["ranks"], again or ["start", str(run)], make_network(config))
        if code:
            recover(run, config)
        said = any(line.startswith("failed: ") for line in messages(run)[-1:])
        if code and not said and not stop.heard():  # a rank that was killed, or one of those that write no log
            log.info("failed: the world of %d ranks ended with exit code %d", config["ranks"], code)
        return code
    if checkpoint is None:
        checkpoint = checkpoint_left(run, config)
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
    from neuro_cli.runner.build import check_root
    from neuro_cli.runner.launch import launched_by_us
    from neuro_cli.runner.logs import is_written
    from neuro_cli.runner.recover import recover
    from neuro_cli.runner.runs import is_search, read_checkpoint, read_config, resumed_config

    options = _arguments("resume", arguments)
    if is_search(options.run):
        return resume_search(options.run, options.overrides)
    changes, generation, trust = _resume_arguments(options.overrides)
    config = read_config(options.run, trust)
    if launched() and not launched_by_us() and "ranks" not in changes:
        config["ranks"] = None  # the launcher has chosen
    for key in sorted(changes, key=lambda key: "." in key):  # groups first
        set_key(config, key, changes[key])
    check_root(config)
    if generation is None and not launched_by_us() and not is_written(options.run):
        recover(options.run, config)
    checkpoint = read_checkpoint(options.run, config, generation)
    if config["generations"] < checkpoint.generation:
        raise ConfigError("generations", config["generations"], f"the checkpoint has {checkpoint.generation} already")
    again = ["resume", str(options.run), *[text for text in arguments[1:] if not text.startswith("ranks=")]]
    with resumed_config(options.run, config) if changes else nullcontext():
        return start(config, options.run, checkpoint, again)


def resume_search(run: Path, overrides: list[str]) -> int:
    """Go on with a search from its last checkpoint, with the keys of ``SEARCH_RESUME_KEYS`` and the pool as in ``overrides``."""
    from neuro_cli.runner.runs import resumed_config, saved_config
    from neuro_cli.search.command import go_on

    config, trust = saved_config(run), []
    for text in overrides:
        key, value = parse_plain(text)
        if key == "trust":
            trust = [str(name) for name in (value if isinstance(value, list) else [value])]
        elif key in ("pool", "logger"):
            config[key] = option_of(key, value)
        elif key in SEARCH_RESUME_KEYS or key.startswith("pool."):
            set_key(config, key, value)
        else:
            raise ConfigError(
                key, value, f"a resumed search keeps it; what can change: {', '.join(SEARCH_RESUME_KEYS)}, pool, logger"
            )
    # a pool may refer to what the config says of a cluster
    whole = OmegaConf.to_container(OmegaConf.create(config), resolve=True)
    assert isinstance(whole, dict)
    config = {str(key): value for key, value in whole.items()}
    with resumed_config(run, config) if overrides else nullcontext():
        return go_on(config, run, trust)


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
    """Set a dotted key of a nested config. Raises ConfigError for one that is not there."""
    *parents, last = key.split(".")
    for parent in parents:
        config = config.get(parent) or {}
    if last not in config:
        raise ConfigError(key, value, "this run's config has no such key")
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
        elif key in EVALUATE_KEYS:
            changes[key] = integer(key, value, 1) if key == "threads" and value is not None else value
        else:
            raise ConfigError(key, value, f"evaluate takes {', '.join(EVALUATE_KEYS)}")
    evaluate(options.run, generation, trust, changes)
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; usage: {self.prog} RUN [key=value ...]")


def _arguments(verb: str, arguments: list[str]) -> argparse.Namespace:
    parser = _Parser(f"neuro {verb}", description=VERBS[verb][1])
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder, for example outputs/train/<stamp>")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    return parser.parse_args(arguments)


def search_verb(arguments: list[str]) -> int:
    words = {"certs": certs_verb, "status": status_verb, "plot": plot_verb}
    if arguments and arguments[0] in words:
        return words[arguments[0]](arguments[1:])
    return _hydra_verb(search_main)(arguments)


def status_verb(arguments: list[str]) -> int:
    from neuro_cli.broker.packages import need_packages

    parser = argparse.ArgumentParser("neuro search status", description="Brokers, workers, tasks, and tasks that were given up.")
    parser.add_argument("nameserver", nargs="?", default="127.0.0.1:7700", metavar="HOST:PORT")
    parser.add_argument("--certificates", type=Path, metavar="FOLDER", help="of neuro search certs")
    parser.add_argument(
        "--dead", type=int, default=3, metavar="N", help="so many tasks that each broker gave up, with tracebacks"
    )
    parser.error = _refuse_status  # type: ignore[method-assign]
    options = parser.parse_args(arguments)
    need_packages()
    from neuro_cli.broker.addresses import check_address
    from neuro_cli.broker.settings import Security
    from neuro_cli.broker.status import status

    status(check_address("HOST:PORT", options.nameserver), Security(options.certificates), options.dead)
    return 0


def _refuse_status(message: str) -> NoReturn:
    raise UserError(f"{message}; usage: neuro search status [HOST:PORT] [--certificates FOLDER] [--dead N]")


def plot_verb(arguments: list[str]) -> int:
    from neuro_cli.search.compare import compare

    if len(arguments) < 2 or not arguments[0].endswith((".png", ".pdf", ".svg")):
        raise UserError("usage: neuro search plot FILE.png FOLDER ..., folders of searches or of sweeps of searches")
    compare(Path(arguments[0]), [Path(folder) for folder in arguments[1:]])
    return 0


def certs_verb(arguments: list[str]) -> int:
    from neuro_cli.broker.packages import need_packages

    if not arguments or arguments[0].startswith("-"):
        raise UserError("usage: neuro search certs FOLDER [HOST ...], the names and addresses under which this host is reached")
    need_packages()
    from neuro_cli.broker.certificates import make_certificates

    for path in make_certificates(Path(arguments[0]), arguments[1:]):
        print(f"neuro: {path}")
    return 0


def report_verb(arguments: list[str]) -> int:
    from neuro_cli.report.sweep import report as table

    parser = _Parser("neuro report", description=VERBS["report"][1])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="folders of runs and sweeps")
    table(parser.parse_args(arguments).folders)
    return 0


def doctor_verb(arguments: list[str]) -> int:
    from neuro_cli.runner.doctor import doctor

    parser = argparse.ArgumentParser("neuro doctor", description=VERBS["doctor"][1], exit_on_error=False)
    _, unknown = parser.parse_known_args(arguments)
    if unknown:
        raise UserError(f"{' '.join(unknown)}: neuro doctor takes no arguments")
    return doctor()


def _hydra_verb(main: Callable[[], Any]) -> Callable[[list[str]], int]:
    def verb(arguments: list[str]) -> int:
        name = main.__name__.removesuffix("_main")
        arguments = [f"what={arguments[0]}", *arguments[1:]] if _is_word(name, arguments) else arguments
        sys.argv = [f"neuro {name}", *checked(name, arguments)]
        GlobalHydra.instance().clear()
        os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises, instead of printing in its own way
        return swept(main)

    return verb


def _is_word(name: str, arguments: list[str]) -> bool:
    return name == "bench" and bool(arguments) and "=" not in arguments[0] and not arguments[0].startswith("-")


VERBS: dict[str, tuple[Callable[[list[str]], int], str]] = {
    "train": (_hydra_verb(train_main), "Train a network. Options by Hydra: neuro train --help"),
    "bench": (_hydra_verb(bench_main), "Measure: neuro bench generation"),
    "scale": (_hydra_verb(scale_main), "Measure weak and strong scaling over networks, and project beyond this machine."),
    "search": (search_verb, "Evolve the module of a convolutional network; candidates are trained side by side."),
    "resume": (resume_verb, "Go on with a run from its last checkpoint, on any number of ranks."),
    "evaluate": (evaluate_verb, "Score a run's trained network on the test set."),
    "report": (report_verb, "One table over the runs of sweeps, also as sweep.csv: neuro report outputs/train/<stamp>"),
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
  neuro train -m hydra/launcher=slurm ranks=2 seed=1,2   its jobs on SLURM
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
    logging.raiseExceptions = False  # a log line that finds no room on the disk must not print a traceback
    world = None
    code: int = 1
    stop.forget()
    if slurm.in_job():
        signal.signal(signal.SIGUSR2, stop.hear)  # it may come while a run is still loading
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
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except Exception as error:
        code = report(_mendable(error))
    finally:
        if world is not None and world.size > 1:
            from neuro_cli.runner.session import dismiss

            dismiss(world, code)
    sys.exit(code)
