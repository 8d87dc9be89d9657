"""``NAME.votes``: the voters of a run with ``algo=random_vote``, a line of JSON and 8 bytes for each.

The line has the facts of the network and, under ``vote``, what creates a voter from its address and the base: sampler, seed,
population, sigmas. The base itself is not in the file.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.factory.trust import refuse_untrusted
from neuro_cli.runner.build import make_model
from neuro_cli.runner.vote import Vote, vote_of_addresses
from neuro_cli.task.inputs import Inputs, from_plain

VOTES = ".votes"
HEAD = 1 << 19  # most bytes of the line
MOST = 1 << 20  # most voters


def votes_bytes(vote: Vote, facts: dict[str, Any]) -> bytes:
    """Return the content of a file of the voters of ``vote``: addresses are generation and member, little-endian uint32."""
    addresses = vote.addresses.numpy().astype("<u4")
    return json.dumps({**facts, "vote": vote.about}).encode() + b"\n" + addresses.tobytes()


def read_votes(file: Path, trust: list[str], model: nn.Module | None = None) -> tuple[nn.Module, Inputs | None]:
    """Return the vote in ``file``, and what it takes.

    ``model``: the base; None creates it by the config in the file, for which ``trust`` has the packages other than ours.
    Raises UserError for another file, another base, or a class of a package without trust.
    """
    facts, addresses = _parts(file)
    about = facts["vote"]
    config = {name: about.get(name) for name in ("sampler", "seed", "population")}
    try:
        if model is None:
            config["model"] = facts["model"]
        refuse_untrusted(config, trust)
        base = make_model(config) if model is None else model
        inputs = None if facts.get("inputs") is None else from_plain(facts["inputs"])
        return vote_of_addresses(base.eval(), about, addresses), inputs
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{file}: no voters of neuro: {' '.join(str(error).split())[:160]}") from error


def _parts(file: Path) -> tuple[dict[str, Any], np.ndarray]:
    """Return the facts and the addresses (k, 2). Raises UserError."""
    try:
        with file.open("rb") as stream:
            line = stream.readline(HEAD + 1)
            rest = stream.read(8 * MOST + 1)
    except OSError as error:
        raise ConfigError("run", file, f"it cannot be read: {error.strerror}") from error
    try:
        facts = json.loads(line) if len(line) <= HEAD else None
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict) or not isinstance(facts.get("vote"), dict) or not rest or len(rest) % 8:
        raise UserError(f"{file}: no voters of neuro: it begins with a line of JSON, and 8 bytes for each voter follow")
    return facts, np.frombuffer(rest, "<u4").reshape(-1, 2)
