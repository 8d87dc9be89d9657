"""The verbs as functions of a script or a notebook: ``train``, ``resume``, ``evaluate``.

They do what the commands of the same names do, by the same functions, and raise what those print. A function leaves its process
as it was: it restores signal handlers, threads of torch, the import path, the log and Hydra's state.
Under an MPI launcher every rank calls them alike; rank 0 has the run folder.
"""

import json
import logging
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from neuro_cli.algo.base import Algorithm
from neuro_cli.cli.arguments import names, values_of
from neuro_cli.cli.compose import composed_training
from neuro_cli.cli.error_lines import mending
from neuro_cli.cli.hydra_job import at_work, shown
from neuro_cli.cli.overrides.grammar import overrides_of, parse_plain, text_of
from neuro_cli.cli.verbs.evaluate import EVALUATE_KEYS, evaluate_arguments
from neuro_cli.cli.verbs.resume import ReadyRun, resumed
from neuro_cli.cli.verbs.train import start
from neuro_cli.core.errors import ConfigError, UserError, no_exit
from neuro_cli.core.exit_codes import BAD_INPUT
from neuro_cli.core.machine.threads import REST
from neuro_cli.distribution.method import Method
from neuro_cli.fabric.base import SingleProcess, World
from neuro_cli.fabric.network import Network
from neuro_cli.fabric.start import launched, launched_world
from neuro_cli.factory.own_code import import_path_put_back, let_import
from neuro_cli.factory.script_objects import Made, placed, plain
from neuro_cli.launch.requeue import checkpoint_left
from neuro_cli.library.result import Result
from neuro_cli.logger.base import Logger
from neuro_cli.run_folder import log as run_log
from neuro_cli.run_folder.config import is_search, resumed_config, save_config
from neuro_cli.run_folder.log import log_to, messages
from neuro_cli.run_folder.short_names import folder_of
from neuro_cli.runner import evaluate as evaluation
from neuro_cli.runner import loop, stop_signals
from neuro_cli.runner.consensus import collectively
from neuro_cli.runner.options import Options
from neuro_cli.runner.session import hand_out, receive, unanimous
from neuro_cli.sampler.base import Estimator
from neuro_cli.task.base import Task

_LOG = logging.getLogger("neuro_cli")

CONTRACTS: dict[str, type] = {
    "task": Task,
    "model": nn.Module,
    "sampler": Estimator,
    "distribution": Method,
    "algo": Algorithm,
    "fabric": Network,
    "logger": Logger,
}


@dataclass(frozen=True)
class Request:
    """Request of a script to ``verb``: ``texts`` in the command line's syntax, ``objects`` by group; ``run``: of the folder."""

    verb: str
    texts: list[str]
    objects: dict[str, Any] = field(default_factory=dict)
    run: str = ""

    def made(self) -> dict[str, Made]:
        """Return the objects with their description in a config."""
        return {group: Made(group, value) for group, value in self.objects.items()}

    def agree(self, world: World) -> None:
        """Raise UserError on every rank if their requests differ. Every rank calls this."""
        mine = {"train(), resume()": self.verb, "run": self.run, "overrides": " ".join(self.texts)}
        mine |= {group: value.digest() for group, value in self.made().items()}
        first = json.loads(world.broadcast(json.dumps(mine).encode()))
        with collectively(world):
            for key in sorted(mine.keys() | first.keys()):
                if mine.get(key) == first.get(key):
                    continue
                hint = ", its weights included: call torch.manual_seed before it is made" if key == "model" else ""
                raise UserError(f"{key}: all ranks of a world must give the same as rank 0{hint}")


def request_of(verb: str, overrides: Sequence[str], values: Mapping[str, Any], run: str = "") -> Request:
    """Return the overrides and objects of a call; a dict has keys below its own. Raises ConfigError for another value."""
    texts, objects = [str(text) for text in overrides], {}
    for key, value in values.items():
        if key in CONTRACTS and isinstance(value, CONTRACTS[key]):
            objects[key] = value
        elif isinstance(value, Mapping):
            texts += overrides_of(value, f"{key}.")
        elif key in CONTRACTS and not isinstance(value, str | Path):
            kind = CONTRACTS[key]
            raise ConfigError(key, value, f"must be a name, a dict of keys or a {kind.__module__}.{kind.__qualname__}")
        else:
            texts.append(f"{key}={text_of(key, value)}")
    for text in texts:
        key, _, value = text.lstrip("+~").partition("=")
        if key.partition(".")[0] in objects:
            raise ConfigError(key, value, f"the script gives the {key.partition('.')[0]} as an object: set it there")
    return Request(verb, texts, objects, run)


Prepare = Callable[[Request, World, ExitStack], ReadyRun]


def train(*overrides: str, folder: str | Path | None = None, **values: Any) -> Result:
    """Train a network as ``neuro train`` does, with the same files and bits.

    ``overrides``: texts of the command line ("algo.sigma=0.1"). ``values``: root keys and groups by name: a group takes the
    name of an option, a dict of its keys, or an object of its contract's class. ``folder``: of the run, by default
    outputs/train/<stamp>. Raises UserError with the command's line, a ConfigError where a key is wrong.
    KeyboardInterrupt comes after a clean stop with a checkpoint.
    """
    if folder is not None:
        values |= {"hydra.run.dir": folder}
    return _session("train", "", overrides, values, _begun)


def resume(run: str | Path, *overrides: str, **values: Any) -> Result:
    """Continue the run in the folder ``run`` from its last checkpoint as ``neuro resume`` does.

    ``overrides``, ``values``: keys that may change, ``checkpoint`` (a generation), ``trust``, and every object that the script
    gave to :func:`train`. Raises as :func:`train`.
    """
    return _session("resume", str(folder_of(Path(run))), overrides, values, _continued)


def evaluate(run: str | Path, *overrides: str, **values: Any) -> dict[str, float]:
    """Return the metrics on the test set of the trained network in the folder ``run``, as ``neuro evaluate`` prints them.

    ``overrides``, ``values``: ``checkpoint`` (a generation), ``trust``, ``device``, ``threads``, ``task`` (a dict with root,
    download, evaluation_episodes), and the model and the task that the script gave to :func:`train`. Raises UserError.
    """
    with process_put_back(), REST.entered(), mending():
        request = request_of("evaluate", overrides, values)
        generation, trust, changes = evaluate_arguments(values_of(request.texts, EVALUATE_KEYS, "evaluate takes"))
        return evaluation.evaluate(folder_of(Path(run)), generation, trust, changes, request.objects).values


def _session(verb: str, run: str, overrides: Sequence[str], values: dict[str, Any], prepare: Prepare) -> Result:
    """Train on all ranks what rank 0 prepares; a rank that fails alone ends the world, as with the commands."""
    with process_put_back(), REST.entered(), ExitStack() as cleanup:
        world: World = launched_world() if launched() else SingleProcess()
        result = unanimous(world, lambda: _agreed(verb, run, overrides, values, prepare, world, cleanup))
    pass_on_signals(result.run)
    return result


def _agreed(
    verb: str, run: str, overrides: Sequence[str], values: dict[str, Any], prepare: Prepare, world: World, cleanup: ExitStack
) -> Result:
    with collectively(world):
        request = request_of(verb, overrides, values, run)
    request.agree(world)
    with no_exit():
        with collectively(world), mending():
            session = prepare(request, world, cleanup) if world.rank == 0 else None
        return _trained(world, session, request)


def _begun(request: Request, world: World, cleanup: ExitStack) -> ReadyRun:
    """Compose the config and begin the run folder on rank 0; ``cleanup`` gives the folder up."""
    composed = composed_training(request.texts)
    objects = request.made()
    let_import()  # the script may name packages of the current folder
    cleanup.enter_context(at_work(composed.run, new=True))
    options = Options(composed.config | objects)
    _check(options, request, world)
    composed.save([f"{group}={node['_target_']}" for group, node in objects.items()])
    save_config(plain(options.plain), composed.run)
    log_to(composed.run, 0)
    run = shown(composed.run)
    return ReadyRun(options, run, checkpoint_left(run, options), ["start", str(run)])


def _continued(request: Request, world: World, cleanup: ExitStack) -> ReadyRun:
    """Read config and checkpoint of a run folder on rank 0; ``cleanup`` gives the folder up."""
    run = Path(request.run)
    if is_search(run):
        raise UserError(f"{run}: a search; continue with: neuro resume {run}")
    cleanup.enter_context(at_work(run, new=False))
    session = resumed(run, request.texts, request.objects)
    _check(session.options, request, world)
    if session.changed:
        cleanup.enter_context(resumed_config(run, plain(session.options.plain)))
    log_to(run, 0)
    return session


def _check(options: Options, request: Request, world: World) -> None:
    """Raise ConfigError for objects and ranks that do not go together with the rest."""
    ranks = options.config.ranks  # root keys are checked before the parts that take their values
    if options.is_ensemble and (wrong := request.objects.keys() & {"model", "algo"}):
        raise ConfigError(min(wrong), "an object", "an ensemble makes its networks itself: name a class, or algo=ensemble")
    if launched():
        options.world()  # all ranks are in it already: it refuses what its network cannot be
    if ranks is None:
        return
    if launched() and ranks != world.size:
        raise ConfigError("ranks", ranks, f"the launcher started {world.size}; leave it null there")
    if not launched() and request.objects:
        raise ConfigError("ranks", ranks, f"objects are in this process alone: name classes, or mpiexec -n {ranks} python ...")


def _trained(world: World, session: ReadyRun | None, request: Request) -> Result:
    """Train on this world, every rank in its part, or on the ranks that the config asks for."""
    if session is not None and session.options.config.ranks is not None and not launched():
        _on_ranks(session)
        return Result(session.run, _trust(request), {})
    with mending():
        if session is not None:
            world = session.options.world()
            hand_out(world, session.options.plain, session.run, session.checkpoint)
            run, summary = session.run, loop.train(session.options, world, session.run, session.checkpoint)
        else:
            run, summary = _joined(world, request), None
    # other ranks return when rank 0 has written all files
    return Result(run, _trust(request), request.objects, json.loads(world.broadcast(json.dumps(summary).encode())))


def _joined(world: World, request: Request) -> Path:
    """Train what rank 0 has prepared on another rank, with this rank's own objects. Returns the run folder."""
    job = receive(world)
    assert not isinstance(job, int), "rank 0 of a script dismisses no rank"
    if job.own_code:
        let_import()
    log_to(None, world.rank)
    loop.train(Options(placed(job.config, request.objects)), world, job.run, job.checkpoint)
    return job.run


def _trust(request: Request) -> list[str] | None:
    """Return the packages that may define a trained network, or None for all, where the script has just named them."""
    pairs = [parse_plain(text) for text in request.texts] if request.verb == "resume" else []
    return None if request.verb == "train" else [name for key, value in pairs if key == "trust" for name in names(value)]


def _on_ranks(session: ReadyRun) -> None:
    """Train on a world of the command's. Raises UserError with what its ranks said, RuntimeError where they failed."""
    code = start(session.options, session.run, session.checkpoint, session.again)
    if not code:
        return
    said = [line.removeprefix("failed: ") for line in messages(session.run) if line.startswith("failed: ")]
    text = said[-1] if said else f"the world of {session.options.config.ranks} ranks ended with exit code {code}"
    raise UserError(text) if code == BAD_INPUT else RuntimeError(text)


@contextmanager
def process_put_back() -> Iterator[None]:
    """Restore what a run changes of its process: torch's threads, the log, the import path, signals that were heard."""
    threads = torch.get_num_threads()
    log = list(_LOG.handlers), _LOG.level, _LOG.propagate
    _LOG.handlers = []  # a run would close the handlers that it finds
    stop_signals.forget()
    try:
        with import_path_put_back():
            yield
    finally:
        run_log.leave()
        for handler in list(_LOG.handlers):
            _LOG.removeHandler(handler)
            handler.close()
        _LOG.handlers, _LOG.propagate = log[0], log[2]
        _LOG.setLevel(log[1])
        torch.set_num_threads(threads)


def pass_on_signals(run: Path) -> None:
    """Raise the signals that stopped the run in the folder ``run`` again, for the script, now that the checkpoint is written."""
    heard = stop_signals.heard()
    stop_signals.forget()
    for name in heard:
        if name == "SIGINT":
            raise KeyboardInterrupt(f"stopped with a checkpoint; neuro_cli.resume({str(run)!r}) continues")
        signal.raise_signal(signal.Signals[name])
