"""Centre of `neuro evolve`: initial parameters plus the steps that the cluster has committed."""

from torch import Tensor

from neuro_cli.algo.base import CentreAlgorithm, Proposal, State
from neuro_cli.core.checks import number
from neuro_cli.core.layout import ParameterLayout


class SeedSteps(CentreAlgorithm):
    """Adds committed steps to the centre; the cluster scores and selects. ``sigma``: standard deviation of a member."""

    def __init__(self, sigma: float) -> None:
        self.sigma = number("algo.sigma", sigma, above=0.0)

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        self._centre = centre.clone()
        self.iteration, self.head = 0, b""

    @property
    def centre(self) -> Tensor:
        return self._centre

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
        self.iteration, self.head = self.iteration + 1, head

    def state(self) -> State:
        return State({"centre": self._centre.clone()}, {"iteration": self.iteration, "head": self.head.hex()})

    def restore(self, state: State) -> None:
        self._centre = state.tensors["centre"].clone()
        self.iteration, self.head = int(state.scalars["iteration"]), bytes.fromhex(state.scalars["head"])
