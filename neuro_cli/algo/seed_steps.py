"""Centre of `neuro evolve`: initial parameters plus the steps that the cluster has committed."""

from torch import Tensor

from neuro_cli.algo.base import CentreAlgorithm, Proposal, State
from neuro_cli.algo.centre.average import follow
from neuro_cli.core.checks import number
from neuro_cli.core.layout import ParameterLayout


class SeedSteps(CentreAlgorithm):
    """Adds committed steps to the centre; the cluster scores and selects. ``sigma``: standard deviation of a member.

    ``average`` in [0, 1): share of the past in the average of centres that is evaluated and saved. It is a function of the steps
    too. Raises ConfigError.
    """

    def __init__(self, sigma: float, average: float = 0.0) -> None:
        self.sigma = number("algo.sigma", sigma, above=0.0)
        self._share = number("algo.average", average, low=0.0, below=1.0)

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        self._centre = centre.clone()
        self._average = centre.clone() if self._share else None
        self.iteration, self.head = 0, b""

    @property
    def centre(self) -> Tensor:
        return self._centre

    @property
    def solution(self) -> Tensor:
        return self._centre if self._average is None else self._average

    def sigma_at(self, generation: int) -> float:
        return self.sigma

    @property
    def needs_parameters(self) -> str | None:
        return "passes members on as seeds, from which noise on activations cannot be made again without their examples"

    def proposal(self) -> Proposal:
        """Propose the present iteration's members: the centre plus sigma times noise."""
        return Proposal.around(self._centre, self.sigma)

    def step(self, sums: list[Tensor], head: bytes) -> None:
        """Add ``sums``, each (M,), in order; ``head`` is the hash of the committed steps up to this one."""
        for one in sums:
            self._centre += one
        if self._average is not None:
            follow(self._average, self._centre, self._share, self.iteration)
        self.iteration, self.head = self.iteration + 1, head

    def state(self) -> State:
        tensors = {"centre": self._centre.clone()} | ({} if self._average is None else {"average": self._average.clone()})
        return State(tensors, {"iteration": self.iteration, "head": self.head.hex()})

    def restore(self, state: State) -> None:
        self._centre = state.tensors["centre"].clone()
        self._average = state.tensors["average"].clone() if self._share else None
        self.iteration, self.head = int(state.scalars["iteration"]), bytes.fromhex(state.scalars["head"])
