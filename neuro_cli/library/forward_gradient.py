"""Gradients of the user's own loop by forward passes alone, in place of ``loss.backward()``: noise on activations.

The estimate is that of ``sampler=activation``, see :mod:`neuro_cli.activation_noise.estimator`.

Legend: P members, M parameters, B examples, T tokens of an example.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.activation_noise.estimator import CREDITS, Activation
from neuro_cli.activation_noise.passes import unevolved
from neuro_cli.activation_noise.scorer import ActivationScorer
from neuro_cli.algo.base import Combination, PopulationAlgorithm, Proposal, State
from neuro_cli.core.checks import integer, number, one_of
from neuro_cli.core.errors import CandidateError, ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Modes, threads_kept
from neuro_cli.core.messages.did_you_mean import suggesting
from neuro_cli.core.module.copies import copied
from neuro_cli.core.module.precision import PRECISIONS
from neuro_cli.distribution.base import Distribution
from neuro_cli.fabric.base import World
from neuro_cli.fabric.network import Network
from neuro_cli.library.by_form import ByForm, scorer_of
from neuro_cli.library.loop import Loop, one_at_a_time, refuse_other
from neuro_cli.library.loss_task import LossTask
from neuro_cli.library.named import uncompiled
from neuro_cli.library.same_module import share_initial
from neuro_cli.library.scorer import agreed, refuse_unlike
from neuro_cli.runner.bind import Numbers, Population
from neuro_cli.runner.consensus import collectively
from neuro_cli.scoring.isolation import difference
from neuro_cli.scoring.modes import refuse_computed_by_modes

SMOOTH_SIGMA, STEP_SIGMA = 1e-3, 0.1  # a loss that torch can follow, and one with steps or calls that it cannot
WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel)


class Slope(PopulationAlgorithm):
    """Gradient of the loss at a centre that the user moves; ``sigma``: size of the noise."""

    proportional = True

    def __init__(self) -> None:
        self.sigma = SMOOTH_SIGMA
        self._centre, self.value = torch.empty(0), torch.empty(0)

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        self._centre = centre

    def place(self, centre: Tensor) -> None:
        """Set the centre (M,) at which the forward gradient is estimated."""
        self._centre = centre

    @property
    def centre(self) -> Tensor:
        return self._centre

    def ask(self, generation: int) -> Proposal:
        return Proposal.around(self._centre, self.sigma)

    def combination(self, generation: int, fitness: np.ndarray) -> Combination:
        divisor = -len(fitness) * self.sigma  # a fitness is a negative loss
        return Combination(fitness[None] / divisor, (1,), 1 / divisor)

    def tell(self, generation: int, sums: Tensor) -> None:
        self.value = sums[0]

    def state(self) -> State:
        return State()

    def restore(self, state: State) -> None:
        """Do nothing: the centre of a forward gradient is the user's."""


@suggesting
class ForwardGradient(Loop):
    """Estimator of a loss's gradient by the parameters of ``model``, by forward passes with noise on activations.

    ``draws``, ``space``, ``scale``, ``schedule``, ``antithetic``, ``control_variates`` and ``correction`` are those of
    ``sampler=activation``. Raises ConfigError.

    - ``credit``: own | following | all, the losses of tokens that weight the noise of a token. None: an example's loss is the
      mean over its tokens, without bias.
    - ``sigma``: size of the noise in units of a layer's outputs. None: 0.001, or 0.1 if the loss has steps or leaves torch.
    - ``forward``: a function of model and inputs that returns outputs, for a loss of several calls. None: one call.
    - ``precision`` of the passes: float32 | bfloat16. ``seed``: the noise's, in [0, 2**64).
    - ``threads``: passes at the same time on a rank; None: the machine's cores over its ranks.
    - ``distribution``, ``fabric``, ``world``: as in :class:`neuro_cli.Evolution`.
    """

    def __init__(
        self, model: nn.Module, *, draws: int = 2, seed: int = 1, sigma: float | None = None, space: str = "auto",
        scale: str = "relative", schedule: str = "auto", antithetic: bool = False, control_variates: bool | str = "auto",
        correction: str = "auto", credit: str | None = None,
        forward: Callable[[nn.Module, Any], Any] | None = None, precision: str = "float32", threads: int | None = None,
        distribution: str | Distribution = "auto", fabric: str | Network = "native", world: World | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(model, nn.Module):
            raise ConfigError("model", type(model).__name__, "must be a torch.nn.Module")
        if isinstance(model, WRAPPERS):
            raise ConfigError("model", type(model).__name__, "give the module inside of it; several processes share the passes")
        self._model = uncompiled(model)
        if threads is not None:
            threads = integer("threads", threads, 1)
        seed = integer("seed", seed, 0, 2**64 - 1)
        self._sigma = None if sigma is None else number("sigma", sigma, above=0.0)
        one_of("precision", precision, tuple(PRECISIONS))
        if credit is not None:
            one_of("credit", credit, CREDITS)
        sampler = Activation(draws, space, scale, schedule, antithetic, control_variates, credit or "own", correction)
        self._layout = ParameterLayout(self._model)
        if self._layout.dtype != torch.float32:
            allowed = "must be float32; precision='bfloat16' runs the passes in half precision"
            raise ConfigError("model", f"parameters in {self._layout.dtype}", allowed)
        refuse_computed_by_modes(self._model)
        method = self._connect(distribution, fabric, world)
        self._start_threads(threads, next(self._model.parameters()).device)
        self._subject = type(self._model).__name__
        numbers = Numbers(seed, 1, False, PRECISIONS[precision])
        self._slope, self._task = Slope(), LossTask(numbers.precision, forward, credit is not None)
        self._populations = ByForm(
            lambda: copied(self._model), self._task, self._slope, sampler, method, self.world, self._threads, numbers
        )
        options = {name: getattr(sampler, name) for name in ("draws", "space", "scale", "schedule", "antithetic", "correction")}
        asked = {"seed": seed, "sigma": self._sigma, "control_variates": control_variates, "credit": credit}
        self._settings = {"parameters": self._layout.size, "precision": precision, **options, **asked}
        self._reference: nn.Module | None = None  # the model as the populations have it
        self._frozen: list[str] = []  # names of the model's frozen parameters then
        self._vector: Tensor | None = None  # the parameters, in memory that each step uses again
        self._versions: list[tuple[int, int]] = []
        share_initial(self._model, self.world)

    @one_at_a_time
    def backward(self, loss_fn: Callable[..., Any], inputs: Any, targets: Any = None) -> Tensor:
        """Add the estimate of the mean loss's gradient to ``.grad`` of the parameters, and return that loss, a number.

        ``loss_fn(outputs, targets)``, or ``loss_fn(outputs)`` without targets, returns a loss for each of B examples, (B,), or of
        their tokens, (B, T). ``inputs`` and ``targets``: tensors with B rows, or lists, tuples or mappings of them. Nothing else
        changes: not the model, its buffers and modes, the batch, or the random generators. Every rank gives the same batch.
        Raises what model and loss raise (on several ranks a UserError, on all), UserError for another shape, CandidateError for a
        loss that is not finite. After an error the gradients are as before.
        """
        modes = Modes.present()
        with threads_kept():
            with collectively(self.world):
                self._task.take_batch(loss_fn, inputs, targets, modes)
            refuse_unlike(self._task, self.world)
            parameters = dict(self._model.named_parameters())
            population = self._population(parameters)
            scorer, method, generation = scorer_of(population), population.distribution, self.generation
            self._slope.sigma = self._sigma or (SMOOTH_SIGMA if scorer.smooth else STEP_SIGMA)
            self._vector = population.layout.flattened(parameters, self._vector)
            self._slope.place(self._vector)
            try:
                with agreed(self.world):
                    own = method.own_scores(generation, self._slope.ask(generation))
                    self._refuse_nan(scorer, generation)
                report = method.tell(generation, own)
                reached = {place.name for layer in scorer.layers_of(generation) for place in layer.places}
            finally:
                scorer.release()
            self._add(parameters, population.layout, self._slope.value, reached)
            self._slope.value = torch.empty(0)
            self.generation += 1
            assert report.loss is not None
            return torch.tensor(report.loss, device=population.device, dtype=torch.float32)

    def _refuse_nan(self, scorer: ActivationScorer, generation: int) -> None:
        mean = -float(scorer.reference(generation)[0])
        if not math.isfinite(mean):
            raise CandidateError(f"loss_fn: the mean loss in step {generation + 1} is {mean}: lower the learning rate")

    def _population(self, parameters: dict[str, nn.Parameter]) -> Population:
        """Return the population for the present batch, with the model and its ``parameters`` as they are now."""
        self._follow(parameters)
        with agreed(self.world):
            if self._reference is None:
                self._layout, self._reference = ParameterLayout(self._model), copied(self._model)
                self._frozen, self._settings["parameters"] = _frozen(parameters), self._layout.size
                self._task.misfit(self._reference)
                self._layout.release_storage(self._reference)
            return self._populations.at(self._task.form)

    def _follow(self, parameters: dict[str, nn.Parameter]) -> None:
        """Follow a script's changes of the model other than its parameters: copy buffers, bind again for the rest."""
        if self._reference is None:
            return
        frozen = _frozen(parameters)
        if frozen != self._frozen:
            self._forget()
            return
        tensors = [*self._model.buffers(), *(parameters[name] for name in frozen)]
        versions = [(id(tensor), tensor._version) for tensor in tensors if not tensor.is_inference()]
        if versions != self._versions:
            self._versions = versions
            for own, given in zip(unevolved(self._reference), tensors, strict=True):
                if own.shape == given.shape:
                    own.copy_(given)
            self._populations.refresh(self._model)
        if difference(self._reference, self._model) is not None:
            self._forget()

    def _forget(self) -> None:
        self._reference = self._vector = None
        self._populations.clear()

    def _add(self, parameters: dict[str, nn.Parameter], layout: ParameterLayout, gradient: Tensor, reached: set[str]) -> None:
        """Add ``gradient`` (M,) to the parameters' own, as back-propagation does; one that no layer uses keeps none.

        New gradients are views of it where it has their order of numbers: a copy of a large one takes as long as a product.
        """
        for place in layout.places:
            parameter = parameters[place.name]
            if place.name not in reached:
                continue
            part = place.view(gradient)
            if parameter.grad is not None:
                parameter.grad.add_(part)
            elif (part.stride(), part.dtype) == (parameter.stride(), parameter.dtype):
                parameter.grad = part
            else:
                parameter.grad = torch.empty_like(parameter).copy_(part)

    def state_dict(self) -> dict[str, Any]:
        """Return tensors and plain values from which :meth:`load_state_dict` resumes forward gradients with the same bits."""
        learnt = self._populations.sampler.learnt.state()
        tensors = {name: tensor.detach().cpu().clone() for name, tensor in learnt.items()}
        return {**self._state(), "tensors": tensors}

    @one_at_a_time
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume forward gradients from ``state``, which ``torch.load(path, weights_only=True)`` reads; it has no parameters.

        Every rank calls this. Raises ConfigError for the state of another model or other options.
        """
        with collectively(self.world):
            self._settings["parameters"] = ParameterLayout(self._model).size
            refuse_other(self._settings, state)
        device = next(self._model.parameters()).device
        self._populations.sampler.learnt.restore({name: tensor.to(device) for name, tensor in state["tensors"].items()})
        self._populations.clear()
        self.generation = int(state["generation"])


def _frozen(parameters: dict[str, nn.Parameter]) -> list[str]:
    """Return the names of frozen parameters."""
    return [name for name, parameter in parameters.items() if not parameter.requires_grad]
