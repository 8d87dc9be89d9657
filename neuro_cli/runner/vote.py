"""Vote of members by their addresses: the network that ``algo=random_vote`` leaves, and its file ``NAME.votes``.

The file has a line of JSON and 8 bytes for each voter. The line has the facts of the network and, under ``vote``, what creates a
voter from its address and the base: sampler, seed, population, sigmas. The base itself is not in the file.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.algo.base import Proposal, State
from neuro_cli.algo.random_vote import RandomVote
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.module.voters import Voters
from neuro_cli.core.noise import Noise
from neuro_cli.factory.instantiate import make
from neuro_cli.factory.trust import refuse_untrusted
from neuro_cli.run_folder.checkpoint import Checkpoint
from neuro_cli.run_folder.summary import parameters_sha256
from neuro_cli.runner.build import make_model
from neuro_cli.sampler.base import Sampler
from neuro_cli.scoring.jobs import write_members
from neuro_cli.task.inputs import Inputs, from_plain

ADDRESSES = "addresses"
VOTES = ".votes"
HEAD = 1 << 19  # most bytes of the line
MOST = 1 << 20  # most voters


@dataclass
class Members:
    """Members of a ``sampler`` around one ``centre`` (M,): ``sigmas`` (k,) and addresses (k, 2), generation and member."""

    sampler: Sampler
    layout: ParameterLayout
    centre: Tensor
    addresses: Sequence[tuple[int, int]]
    sigmas: Sequence[float]
    _drawing: threading.Lock = field(default_factory=threading.Lock)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Members":
        return self  # copies of a module share them

    def put(self, module: nn.Module, number: int) -> None:
        """Give ``module`` the parameters of a member that votes."""
        generation, member = self.addresses[number]
        vector = torch.empty(1, self.layout.size, device=self.centre.device, dtype=torch.float32)
        with self._drawing:  # a sampler has the noise of one generation at a time
            proposal = Proposal.around(self.centre, self.sigmas[number])
            write_members(self.sampler, proposal, generation, range(member, member + 1), vector)
        self.layout.load(module, vector[0])


class Vote(Voters):
    """Members that vote as one module, the best first. Its tensors are the centre's and the ``addresses`` (k, 2) uint32.

    ``about``: what creates the members from their addresses and the centre, as JSON has it.
    """

    addresses: Tensor

    def __init__(self, network: nn.Module, members: Members, about: Mapping[str, Any]) -> None:
        super().__init__()
        self.about = dict(about)
        if hasattr(network, "input_shape"):
            self.input_shape = network.input_shape
        self.network, self.count = network, len(members.addresses)
        self._members = members
        self.register_buffer(ADDRESSES, torch.tensor(members.addresses, dtype=torch.int64).to(torch.uint32))

    def each(self) -> Iterator[nn.Module]:
        for number in range(self.count):
            self._members.put(self.network, number)
            yield self.network
        self._members.layout.load(self.network, self._members.centre)


def vote_of(
    module: nn.Module, sampler: Sampler, layout: ParameterLayout, algo: RandomVote, about: Mapping[str, Any]
) -> nn.Module:
    """Return the vote around ``module``, whose parameters are the centre; itself before any member was scored."""
    if not algo.voters:
        return module
    addresses = [(voter.generation, voter.member) for voter in algo.voters]
    sigmas = [algo.sigma_at(generation) for generation, _ in addresses]
    about = {name: about[name] for name in ("sampler", "seed", "population")} | {
        "sigmas": algo.sigmas,
        "channels_last": layout.places[0].channels_last,
        "base_sha256": parameters_sha256(algo.centre),
    }
    return Vote(module, Members(sampler, layout, algo.centre.detach().clone(), addresses, sigmas), about).eval()


def loaded_vote(module: nn.Module, layout: ParameterLayout, config: Mapping[str, Any], checkpoint: Checkpoint) -> nn.Module:
    """Return the vote of a checkpoint around ``module``, whose parameters are the centre; itself without voters."""
    algo = make(config, "algo", RandomVote)
    algo.start(layout.flatten(module), layout, config["population"], config["seed"])
    algo.restore(State(checkpoint.part("algo")))
    return vote_of(module, _bound(config, layout, algo.centre), layout, algo, config)


def _bound(config: Mapping[str, Any], layout: ParameterLayout, centre: Tensor) -> Sampler:
    sampler = make(config, "sampler", Sampler)
    sampler.bind(Noise(config["seed"], layout.size, centre.device, Threads(1)), config["population"], layout)
    return sampler


def vote_of_addresses(module: nn.Module, about: Mapping[str, Any], addresses: np.ndarray) -> nn.Module:
    """Return the vote of the members at ``addresses`` (k, 2) around ``module``; ``about`` as :class:`Vote` has it.

    Raises KeyError, TypeError, ValueError or UserError for another ``about``, and UserError for other parameters than the
    voters had.
    """
    layout = ParameterLayout(module, bool(about["channels_last"]))
    centre, algo = layout.flatten(module), RandomVote(about["sigmas"])
    if (sha256 := parameters_sha256(centre)) != about["base_sha256"]:
        raise UserError(f"model: its {layout.size} parameters have the SHA-256 {sha256}, the voters' base {about['base_sha256']}")
    pairs = [(int(generation), int(member)) for generation, member in addresses]
    used = [algo.sigma_at(generation) for generation, _ in pairs]
    return Vote(module, Members(_bound(about, layout, centre), layout, centre, pairs, used), about).eval()


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
