"""Runs a generation's passes: the clean one, and those with noise, which begin at a noisy layer where the network allows it.

Legend: B examples, T rewards of an example, R passes side by side, C score columns.
"""

import queue
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from neuro_cli.activation_noise.noise.layer_noise import NoisyLayer
from neuro_cli.activation_noise.noise.mixing import examples_mix, noisy_centre
from neuro_cli.activation_noise.noise.noisy_pass import ObservedChanges, noisy_scores, observe
from neuro_cli.activation_noise.prediction import RewardPredictor
from neuro_cli.activation_noise.recording.clean_pass import PassRecord
from neuro_cli.activation_noise.recording.module_pass import ModulePass
from neuro_cli.activation_noise.trial import EXAMPLES, WAYS, NetworkPlan, by_reward, noisy_layers, record_pass
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.machine.threads import Threads
from neuro_cli.scoring.base import PassSettings
from neuro_cli.scoring.candidate import UNSUPPORTED, brief
from neuro_cli.scoring.passes.operators import Unsupported
from neuro_cli.task.base import Batch

FEW = 80_000  # noise values in a pass of all layers: below it two threads wait for the interpreter lock more than they gain


def unevolved(module: nn.Module) -> list[Tensor]:
    """Return the buffers and frozen parameters."""
    return [*module.buffers(), *(parameter for parameter in module.parameters() if not parameter.requires_grad)]


class CleanPass:
    """The clean pass of a generation: its record, its layers, and the scores (B, T, C) float64 of its examples.

    ``predictor``: None without control variates. ``smooth``: it has no step function, and every layer has a prediction.
    """

    def __init__(self, generation: int, batch: Batch, record: PassRecord, layers: list[NoisyLayer], scores: Tensor) -> None:
        self.generation, self.batch, self.record, self.layers, self.scores = generation, batch, record, layers, scores
        self.predictor: RewardPredictor | None = None
        self.smooth = False

    def forget(self) -> None:
        """Drop the prediction: the graph of its second derivatives takes as much memory as the pass."""
        self.predictor = None
        self.record.release()


class Passes:
    """Passes of the network as planned. ``relative``: noise has the scale of each layer's outputs."""

    def __init__(self, settings: PassSettings, plan: NetworkPlan, relative: bool) -> None:
        self.settings, self.plan, self._relative = settings, plan, relative
        self._singly = set[frozenset[int]]()  # layers with noise whose passes do not go side by side
        few = sum(plan.widths) * settings.batch_size < FEW
        self.threads = Threads(1) if few else settings.threads
        self._centre = settings.candidate()
        # one module for each thread; their parameters are views of the centre's vector
        self._modules: queue.SimpleQueue[nn.Module] = queue.SimpleQueue()
        for _ in range(self.threads.count):
            self._modules.put(settings.candidate(shared=self._centre).module)

    def see_mixing(self, centre: Tensor) -> None:
        """Add to the plan whether examples of a complete batch mix, which a trial's few may not show."""
        plan, few = self.plan, min(EXAMPLES, self.settings.batch_size)
        if plan.mixed or self.settings.batch_size <= few:
            return
        clean = self.clean(0, noisy_centre(centre), False)
        with self._pass_of(clean) as source:
            plan.mixed = examples_mix(clean.record, clean.layers, source, plan.way)
        if plan.mixed and plan.uncontrolled is None:
            plan.uncontrolled = f"{self.settings.batch_size} examples change each other's rewards, and {few} do not"

    def refresh(self, source: nn.Module) -> None:
        """Copy the buffers and frozen parameters of ``source``, which a script may have changed."""
        modules = [self._modules.get() for _ in range(self.threads.count)]
        for module in (self._centre.module, *modules):
            for own, given in zip(unevolved(module), unevolved(source), strict=True):
                if own.shape != given.shape:  # the state of the script's last batch, which had another size
                    own.data = given.detach().clone()
                else:
                    own.copy_(given)
        for module in modules:
            self._modules.put(module)

    @contextmanager
    def _pass_of(self, clean: CleanPass) -> Iterator[ModulePass]:
        """Return a context with a pass of a free module over the examples of a clean pass."""
        module = self._modules.get()
        try:
            yield ModulePass(module, self.settings, clean.batch)
        finally:
            self._modules.put(module)

    def clean(self, generation: int, centre: Tensor, backward: bool) -> CleanPass:
        """Run the clean pass of ``centre`` (M,). ``backward``: with a backward graph."""
        settings = self.settings
        self._centre.flat.copy_(centre)
        batch = settings.task.batch(generation, 0, settings.batch_size).to(settings.precision)
        source = ModulePass(self._centre.ready(), settings, batch)
        record, scores = record_pass(source, self.plan.complete, backward)
        written = record.stale or record.overwritten
        if not self.plan.complete and written is not None:  # the trial runs in another float type, and wrote none
            settings.warn(f"sampler=activation: {written} is overwritten: each pass is complete, slower")
            self.plan.mapped, self.plan.complete, self.plan.replayed = WAYS[-1]
            record, scores = record_pass(source, True, backward)
        return CleanPass(generation, batch, record, noisy_layers(record, self.plan, self._relative), scores)

    def gains(self, clean: CleanPass, deltas: dict[int, Tensor]) -> Tensor:
        """Return the differences (R, B, T, C) float64 of passes with ``deltas`` (R, ..) to the clean one."""
        with self._pass_of(clean) as source:
            try:
                scores = self._scores(clean, deltas, source)
            except Unsupported as error:  # a pass unlike those of the trial
                raise ConfigError("sampler", "activation", f"{type(self.settings.module).__name__}: {error}") from error
        each = clean.scores.shape[1]  # the factor of by_reward, which takes no passes side by side
        # float64: a difference of float32 scores would have few digits left
        gains: Tensor = (scores.double() * each).view(-1, *clean.scores.shape) - clean.scores
        return gains

    def _scores(self, clean: CleanPass, deltas: dict[int, Tensor], source: ModulePass) -> Tensor:
        """Return the scores of passes as planned, one after the other for noise in layers that vmap does not let in.

        A trial has noise in a layer and all later ones: noise in one alone may be written into a tensor without any.
        """
        layers = frozenset(deltas)
        if layers not in self._singly:
            try:
                return noisy_scores(clean.record, deltas, source, *self.plan.way)
            except (Unsupported, *UNSUPPORTED) as error:
                if not self.plan.mapped:
                    raise
                self._singly.add(layers)
                self.settings.warn(f"sampler=activation: passes of some layers run one after the other, slower: {brief(error)}")
        return noisy_scores(clean.record, deltas, source, False, *self.plan.way[1:])

    def observe(self, clean: CleanPass, deltas: dict[int, Tensor]) -> tuple[Tensor, ObservedChanges]:
        """Return the rewards' changes (B, T) in a pass with ``deltas``, and what its nodes get and give."""
        with self._pass_of(clean) as source:
            scores, observed = observe(clean.record, deltas, source, *self.plan.way[1:])
        return (by_reward(scores) - clean.scores)[..., 0], observed
