"""Addresses of a generation's draws: which pass a member is, and the noise of each draw, layer and example.

A number's address is the seed, the generation, the layer (as direction) and, as column, draw, example and output.

Legend: B examples, T rewards of an example (1, or one a token), R = B T, K draws, G groups of layers that are perturbed in one
pass, S sides of a draw, n noise values of an example in a layer. Direction (k G + g) R + r is draw k of group g for reward r.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from neuro_cli.core.noise import ACTIVATION_STREAM, Noise


@dataclass(frozen=True)
class Addresses:
    """``examples`` B with ``each`` T rewards; ``widths`` n of the layers; ``draws`` K; ``joint``: all layers are one group.

    ``sides`` S: 2 in mirrored pairs.
    """

    noise: Noise
    examples: int
    each: int
    widths: tuple[int, ...]
    draws: int
    joint: bool
    sides: int

    @property
    def groups(self) -> int:
        """Number G of groups of layers."""
        return 1 if self.joint else len(self.widths)

    @property
    def rewards(self) -> int:
        """Number R of rewards of a pass."""
        return self.examples * self.each

    @property
    def members(self) -> int:
        """Number of members: one for each reward of each pass."""
        return self.draws * self.groups * self.rewards * self.sides

    def layers_in(self, group: int) -> Sequence[int]:
        """Return the numbers of a group's layers."""
        return range(len(self.widths)) if self.joint else (group,)

    def numbers(self, generation: int, layer: int, first: int, last: int) -> Tensor:
        """Draw the noise (last - first, B, n) float32 of a layer in draws [first, last)."""
        width = self.widths[layer]
        size = self.examples * width
        drawn = self.noise.draw(generation, [layer], first * size, last * size, ACTIVATION_STREAM)
        return drawn.view(last - first, self.examples, width)
