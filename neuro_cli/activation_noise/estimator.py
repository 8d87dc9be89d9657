"""Noise on activations: passes of the centre's network with different noise for each example and draw.

A layer ``y = W x`` gets ``y + s e`` with e ~ N(0, I). The fitness r of an example then estimates its derivative by y,
``E[r e] / s``, and the layer's weights learn from ``sum_b g_b x_b^T`` (Fiete, Seung, "Gradient learning in spiking neural
networks by dynamic perturbation of conductances", PRL 97, 2006; Ren, Kornblith, Liao, Hinton, "Scaling forward gradient with
local losses", ICLR 2023). Where a layer has fewer weights than outputs, an example has noise of the weights instead.

Legend: K rows of weights, M columns; of the draws as in :mod:`addresses`.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from neuro_cli.activation_noise.control_variates import Learnt
from neuro_cli.activation_noise.noise.addresses import Addresses
from neuro_cli.activation_noise.noise.layer_noise import NoisyLayer
from neuro_cli.activation_noise.passes import Passes
from neuro_cli.activation_noise.scorer import ActivationScorer
from neuro_cli.activation_noise.trial import plan_network
from neuro_cli.core.checks import integer, one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.sampler.base import Estimator, Learner
from neuro_cli.scoring.base import PassSettings
from neuro_cli.scoring.passes.operators import Unsupported
from neuro_cli.scoring.traces import is_forgotten, traces

SPACES, SCALES, SCHEDULES = ("auto", "outputs", "weights"), ("relative", "absolute"), ("one", "all", "auto")
CREDITS = ("own", "following", "all")
CORRECTIONS = ("auto", "always", "never")
DEEP = 16  # most layers that schedule=auto perturbs one by one
UNEVEN = "needs weights that are proportional to fitnesses: algo=forward_gradient, or openai_es with algo.shaping=raw"
MIXED = (
    "sampler=activation: examples change each other's rewards (batch norm, sums over the batch): each one's noise counts by all "
    "rewards of its batch, which is right in the mean and far noisier"
)
log = logging.getLogger(__name__)


class Activation(Estimator):
    """Noise on the outputs of layers, in ``draws`` K >= 1 forward passes for each example and group of layers.

    - ``space`` of a layer's noise: outputs | weights | auto, the one with fewer values.
    - ``scale``: ``algo.sigma`` is relative to the root mean square of the layer's outputs, or absolute.
    - ``schedule``: one, a layer in a pass | all together | auto, all where there are more than 16 layers and corrections end
      once predictions suffice.
    - ``antithetic``: draws in mirrored pairs, of 2 passes; else each is compared with the clean pass.
    - ``control_variates``: subtract predictions that learn in the run from the fitnesses; auto: where algorithm and network
      allow it.
    - ``correction`` of predictions by fitnesses: always | never, with the bias of what predictions miss | auto, until they
      explain 90 % of the effect of noise, or half where corrections are noisier.
    - ``credit``: the rewards that a token's noise counts with: own | following, later tokens' too | all of the example.

    Raises ConfigError.
    """

    def __init__(
        self, draws: int = 4, space: str = "auto", scale: str = "relative", schedule: str = "one", antithetic: bool = True,
        control_variates: bool | str = "auto", credit: str = "own", correction: str = "auto",
    ) -> None:  # fmt: skip
        super().__init__(antithetic)
        self.draws = integer("sampler.draws", draws, 1)
        self.space = one_of("sampler.space", space, SPACES)
        self.scale = one_of("sampler.scale", scale, SCALES)
        self.schedule = one_of("sampler.schedule", schedule, SCHEDULES)
        self.credit = one_of("sampler.credit", credit, CREDITS)
        self.correction = one_of("sampler.correction", correction, CORRECTIONS)
        if control_variates != "auto" and not isinstance(control_variates, bool):
            raise ConfigError("sampler.control_variates", control_variates, "must be auto, true or false")
        if self.correction == "never" and control_variates is False:
            raise ConfigError("sampler.correction", correction, "needs sampler.control_variates: without both nothing is left")
        self._asked = control_variates
        self._said: str | None = None  # last reported reason against control variates
        self.learnt = Learnt()  # copies of this object for batches of other forms share it

    def check(self, population: int) -> None:
        """Accept any ``population``: the network determines the number of members, see :meth:`scorer`."""

    def scorer(self, settings: PassSettings, centre: Tensor) -> ActivationScorer:
        """Return the run's scorer. Raises UserError for a task or a network that does not fit, and for too many members."""
        if settings.task.scored_by != "examples":
            allowed = f"it needs a task with examples; {type(settings.task).__name__} scores episodes"
            raise ConfigError("sampler", "activation", allowed)
        scripted = [
            name or "the model"
            for name, part in settings.module.named_modules()
            if isinstance(part, torch.jit.ScriptModule) and any(parameter.requires_grad for parameter in part.parameters())
        ]
        if scripted:
            allowed = f"the layers of a scripted module take no noise; give the module before torch.jit ({scripted[0]})"
            raise ConfigError("sampler", "activation", allowed)
        seen = traces(settings, centre)
        if seen.reason is not None and (seen.draws or seen.writes or not is_forgotten(settings, centre)):
            allowed = f"all passes of a generation must be alike, and one of {type(settings.module).__name__} {seen.reason}"
            raise ConfigError("sampler", "activation", allowed)
        settings = replace(settings, restores=seen.state is not None)
        try:
            plan = plan_network(settings, centre, self.space)
        except Unsupported as error:
            raise ConfigError("sampler", "activation", f"{type(settings.module).__name__}: {error}") from error
        passes = Passes(settings, plan, self.scale == "relative")
        passes.see_mixing(centre)
        self._uncontrolled, self._mixed = plan.uncontrolled, plan.mixed
        alone = bool(self._asked) and plan.uncontrolled is None and self.correction != "always"
        self._addresses = self.addresses(settings.batch_size, plan.rewards, plan.widths, alone)
        self.population = self._addresses.members
        self._scorer = ActivationScorer(settings, centre, passes, self._addresses, self.correction, self.learnt)
        return self._scorer

    def addresses(self, examples: int, rewards: int, widths: tuple[int, ...], alone: bool = False) -> Addresses:
        """Return the addresses of a generation with ``rewards`` of each example; ``alone``: predictions may be used alone later.

        Raises ConfigError for too many members.
        """
        sides = 2 if self.antithetic else 1
        joint = self.schedule == "all" or (self.schedule == "auto" and alone and len(widths) > DEEP)
        addresses = Addresses(self.noise, examples, rewards, widths, self.draws, joint, sides)
        if addresses.members >= 2**32:
            raise ConfigError("sampler.draws", self.draws, f"{addresses.members} forward passes of an example are too many")
        return addresses

    @property
    def passes_a_draw(self) -> int:
        """Forward passes of an example in a draw of every group."""
        return self._addresses.sides * self._addresses.groups

    def serve(self, algo: Learner) -> None:
        if algo.needs_parameters is not None:
            allowed = f"it perturbs no parameters, and algo={type(algo).__name__} {algo.needs_parameters}"
            raise ConfigError("sampler", "activation", f"{allowed}; openai_es, ars and pgpe do without")
        reason = self._uncontrolled if algo.proportional else UNEVEN
        if self.correction == "never" and reason is not None:
            raise ConfigError("sampler.correction", "never", f"needs control variates: {reason}")
        if self._asked is True and reason is not None:
            raise ConfigError("sampler.control_variates", True, reason)
        if self._asked == "auto" and reason not in (None, self._said):
            self._said = reason
            log.info("sampler.control_variates=auto: none, %s", reason)
        self._scorer.controlled = bool(self._asked) and reason is None
        if self._mixed and MIXED not in self.learnt.said:
            self.learnt.said.add(MIXED)
            level = logging.INFO if self._scorer.controlled else logging.WARNING
            log.log(level, MIXED)

    def combine(
        self, weights: np.ndarray, moments: Sequence[int], generation: int, members: range, start: int, stop: int,
        unit: float | None = None,
    ) -> Tensor:  # fmt: skip
        """Return the estimates. A layer's noise counts in units of its scale, as that of parameters does.

        A direction perturbs one group of G, so all count G times: the mean over directions is then that of the network.
        """
        assert set(moments) == {1}  # serve() refuses algorithms that need squares
        layers, shares = self._scorer.layers_of(generation), self._shares(*self.merged(weights, moments, members))
        credited = self._credited(shares)
        used = shares.flatten(3).any(3).any(0).T.tolist()  # (G, draws): another rank's, and those of equal fitnesses, are not
        # a prediction counts once for each draw, group and side, as fitnesses do
        unit = (unit or 0.0) * self.draws * self.passes_a_draw
        gradients: dict[int, list[Sequence[Tensor | None]]] = {}

        def run(number: int) -> None:
            layer, group = layers[number], number % self._addresses.groups
            draws = [draw for draw, counts in enumerate(used[group]) if counts]
            counted = credited if layer.by_tokens else shares  # all of an example's rewards, once, for what its tokens share
            totals = self._weighted_noise(layer, number, counted[:, :, group], draws, generation)
            rows: Sequence[Tensor | None] = totals or [None] * len(weights)  # none where all fitnesses are equal
            gradients[number] = [layer.gradients(total, unit) for total in rows]

        wanted = [number for number, layer in enumerate(layers) if _meets(layer, start, stop)]
        self.noise.threads.map(run, wanted)
        columns = torch.empty(len(weights), self.layout.size, device=self.noise.device, dtype=torch.float32)
        written = set[tuple[int, str]]()
        for number in wanted:  # a fixed order: several layers may share a weight
            for k, parts in enumerate(gradients[number]):
                for place, part in zip(layers[number].places, parts, strict=True):
                    if part is None:
                        continue
                    target = place.view(columns[k])
                    if (k, place.name) in written:
                        target.add_(part)
                    else:  # twice as fast as a sum with zeros
                        target.copy_(part)
                        written.add((k, place.name))
        for place in self.layout.places:
            for k in range(len(weights)):
                if (k, place.name) not in written:
                    place.view(columns[k]).zero_()
        return columns[:, start:stop]

    def _shares(self, weights: np.ndarray, directions: range) -> Tensor:
        """Return weights (K rows, draws, G, B, T) of all noise from those of ``directions``."""
        addresses = self._addresses
        shape = (len(weights), addresses.draws, addresses.groups, addresses.examples, addresses.each)
        padded = np.zeros((len(weights), addresses.draws * addresses.groups * addresses.rewards))
        padded[:, directions.start : directions.stop] = weights * addresses.groups
        padded = padded.reshape(shape)
        if self._mixed:
            padded = np.broadcast_to(padded.sum(3, keepdims=True), shape)
        return torch.from_numpy(padded.astype(np.float32)).to(self.noise.device)

    def _credited(self, shares: Tensor) -> Tensor:
        """Return the weights (.., T) of noise at each token from those of its own reward."""
        if self.credit == "all":
            return shares.sum(-1, keepdim=True).expand(shares.shape)
        return shares.flip(-1).cumsum(-1).flip(-1) if self.credit == "following" else shares

    def _weighted_noise(
        self, layer: NoisyLayer, number: int, weights: Tensor, draws: Sequence[int], generation: int
    ) -> list[Tensor]:
        """Return the sum over ``draws``, in their order, for each row of ``weights`` (rows, K, B, T)."""
        totals: list[Tensor] = []
        for draw in draws:
            noise = self._addresses.numbers(generation, number, draw, draw + 1)[0]
            parts = [layer.weighted(noise, row[draw] / layer.scale) for row in weights]
            totals = [total.add_(part) for total, part in zip(totals, parts, strict=True)] if totals else parts
        return totals


def _meets(layer: NoisyLayer, start: int, stop: int) -> bool:
    """Return whether a layer has parameters in columns [start, stop)."""
    return any(place.start < stop and start < place.stop for place in layer.places)
