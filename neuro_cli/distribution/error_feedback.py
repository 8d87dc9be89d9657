"""Error feedback: the rounding error of one message is added to the next.

message = Q(g + r), r = g + r - value(message): the sum of the sent values differs from the sum of the exact ones by the last r
only. Seide, Fu, Droppo, Li, Yu, "1-bit stochastic gradient descent", Interspeech 2014, section 3;
Karimireddy, Rebjock, Stich, Jaggi, "Error feedback fixes SignSGD and other gradient compression schemes", ICML 2019,
algorithm 2.

Legend: K rows, n columns of one rank, M columns in all, N ranks.
"""

import logging

import torch
from torch import Tensor

from neuro_cli.algo.base import State
from neuro_cli.core.errors import ConfigError
from neuro_cli.distribution.base import PopulationContext
from neuro_cli.distribution.codec import Codec
from neuro_cli.fabric.base import World

log = logging.getLogger(__name__)


class Feedback:
    """Encodes sums for ``columns`` columns; ``kept`` (K, columns) float32: errors to be sent with the next, None at first."""

    def __init__(self, codec: Codec, columns: int) -> None:
        self.codec, self.columns = codec, columns
        self.kept: Tensor | None = None

    def encode(self, values: Tensor, start: int) -> Tensor:
        """Encode ``values`` (K, w) of columns [start, start + w) as a message (bytes,) uint8. ``values`` are overwritten."""
        if self.codec.exact:
            return self.codec.encode(values)
        rows, width = values.shape
        if self.kept is None:
            self.kept = torch.zeros(rows, self.columns, device=values.device, dtype=torch.float32)
        kept = self.kept[:, start : start + width]
        message = self.codec.encode(values.add_(kept))
        torch.sub(values, self.codec.decode(message, rows, width), out=kept)
        return message


def check_wire(job: PopulationContext, wire: str) -> None:
    """Raise ConfigError where rounded sums do not serve the algorithm."""
    if wire != "float32" and not job.algo.sums_add_up:
        name = type(job.algo).__name__.lower()
        raise ConfigError("distribution.wire", wire, f"algo={name} takes its members as they were scored; use float32")


def gather_columns(world: World, kept: Tensor, slices: list[tuple[int, int]]) -> Tensor | None:
    """Gather every rank's ``kept`` (K, n) as (K, M) on rank 0; None elsewhere."""
    rows = len(kept)
    gathered = world.gather(kept.cpu().numpy().ravel(), [rows * (high - low) for low, high in slices])
    if gathered is None:
        return None
    pieces = torch.from_numpy(gathered).split([rows * (high - low) for low, high in slices])
    return torch.cat([piece.view(rows, -1) for piece in pieces], dim=1)


def unsent(state: State) -> Tensor:
    """Return the sum (K, M) of the errors that the ranks of a state kept."""
    return sum(state.tensors["unsent_by_rank"], start=state.tensors["unsent"]) if by_rank(state) else state.tensors["unsent"]


def by_rank(state: State) -> int:
    """Return the number of ranks with their own errors in ``state`` (semi-updates), 0 for none."""
    return len(state.tensors.get("unsent_by_rank", ()))
