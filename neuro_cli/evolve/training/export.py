"""``neuro evolve export``: the model of a peer's run folder in its own format, or its ledger as one portable file."""

from pathlib import Path
from typing import Any

from rich.console import Console

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.files import write_atomically
from neuro_cli.evolve.identity import BASE_KEY
from neuro_cli.evolve.ledger.portable import SUFFIX, PortableLedger, without_path
from neuro_cli.evolve.training.model import steps_of
from neuro_cli.evolve.training.replay import ReplayedPeer, replayed
from neuro_cli.evolve.training.tuned import check_place, evolved, said, write
from neuro_cli.run_folder.model_file import MODEL, facts_of, write_model
from neuro_cli.runner.load import read_config


def export(
    run: Path, file: Path | None, trust: list[str], from_start: bool, iteration: int | None = None
) -> dict[str, Any]:  # fmt: skip
    """Write the model of a peer's run folder, also while the peer works. Raises UserError.

    ``file``: NAME.ledger is the portable ledger; NAME.safetensors, the default, has the network's tensors; any other place gets a
    copy of the model's base, a folder or GGUF, with the evolved tensors. ``iteration``: after so many of them, None for all.
    Prints and returns the iteration and the hash of the parameters.
    """
    config = read_config(run, trust)
    base = base_of(config)
    tuned = file is not None and file.suffix != SUFFIX and base is not None and file.suffix != ".safetensors"
    if tuned:
        assert file is not None
        check_place("file", file, base)
    file = file or run / MODEL
    with replayed(run, config, from_start, iteration) as peer:
        if file.suffix == SUFFIX:
            _write_ledger(file, config, peer)
        elif tuned:
            write(file, base, peer.parts.model, evolved(peer.parts.layout, steps_of(peer.parts).solution))
        else:
            facts = facts_of(config, peer.iteration, peer.parts.task.inputs(), None, {})
            write_model(file, peer.module(), {**facts, "parameters_sha256": peer.digest})
    line = f"{said(file, peer.iteration, peer.digest, peer.ledger.head)}, {peer.seconds:.2f} s"
    Console().print(line, soft_wrap=True, highlight=False, markup=False)
    return {"file": str(file), "iteration": peer.iteration, "parameters_sha256": peer.digest}


def base_of(config: dict[str, Any]) -> Path | None:
    """Return the file or folder from which the model of a config is loaded, None for initial values by the seed."""
    path = config["model"].get(BASE_KEY)
    return None if path is None else Path(path).expanduser()


def _write_ledger(file: Path, config: dict[str, Any], peer: ReplayedPeer) -> None:
    """Write the portable ledger. Raises UserError if base and records do not determine the model."""
    ledger, layout = peer.ledger, peer.parts.layout
    if ledger.base:
        raise ConfigError("file", file, f"the ledger begins at iteration {ledger.base}: it was compacted (cluster.compact_every)")
    module = peer.parts.model
    if peer.parts.task.deployed(module) is not module:
        raise ConfigError("file", file, "the policy needs statistics of observations, which a ledger does not have")
    model, channels_last = without_path(config["model"]), layout.places[0].channels_last
    content = PortableLedger(peer.identity, model, config["sampler"], channels_last, peer.digest, ledger).content()
    try:
        write_atomically(file, content)
    except OSError as error:
        raise UserError(f"{file}: cannot be written: {error.strerror}") from error
