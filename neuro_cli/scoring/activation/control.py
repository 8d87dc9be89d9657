"""Control variates of noise on activations: what noise will do to a fitness, predicted, taken off it, and added to the estimate.

Noise e on a layer's outputs changes an example's reward r by about <g, e>, g its derivative by the outputs. For any p that
does not depend on e the estimate ``p + (r - <p, e>) e`` has the mean of ``r e``; what p says of g is no longer noise. That of
the last layer is measured, an output at a time. Those of the layers before follow from a linear model of the network, layer by
layer: how outputs change with those of the layers that they are made of. A pass with noise in all layers at once shows that, and
shows as many numbers of it as a layer has outputs, where a reward is one; so the model is learnt from passes, by least squares
on what it did not foresee.

Akrout, Wilson, Humphreys, Lillicrap and Tweed, "Deep learning without weight transport", NeurIPS 2019, learn feedback weights
from responses to noise, and Lansdell, Prakash and Kording, "Learning to solve the credit assignment problem", ICLR 2020, from
rewards; both use the feedback instead of the estimate, with its bias. Here it stands beside the estimate, which stays without.

Legend: B examples, T rewards of an example, n outputs of a layer for one reward.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from neuro_cli.core.machine.threads import Threads
from neuro_cli.scoring.activation.fixed import Fixed
from neuro_cli.scoring.activation.layer_noise import NoisyLayer
from neuro_cli.scoring.activation.response import Convolution, Dense, Response

NUMBERS = 1 << 24  # most of a layer's model


@dataclass(frozen=True)
class Nodes:
    """Nodes of a clean pass that a change goes through: layers, ``fixed`` calls numbered behind them, the ``order`` of all."""

    layers: Sequence[NoisyLayer]
    fixed: Sequence[Fixed]
    order: Sequence[int]

    def __getitem__(self, number: int) -> NoisyLayer | Fixed:
        count = len(self.layers)
        return self.layers[number] if number < count else self.fixed[number - count]

    def passed_on(self, number: int, change: Tensor) -> Tensor:
        """The change that later calls get of one of a node's outputs."""
        node = self[number]
        return change if isinstance(node, Fixed) else node.passed_on(change)

    def passed_shape(self, number: int) -> tuple[int, ...]:
        """Shape of what :meth:`passed_on` gives."""
        node = self[number]
        return tuple(node.outputs.shape) if isinstance(node, Fixed) else node.passed_shape


class _Model:
    """A layer's response to what its sources pass on, with the order in which it gets their numbers."""

    def __init__(self, nodes: Nodes, number: int, response: Response, places: bool) -> None:
        """``places``: numbers of a place depend on those of the same place of the sources; else all of an example's on all."""
        layer = nodes.layers[number]
        self.response, self._places, self._sources, self._summed = response, places, layer.sources, layer.summed

    def before(self, nodes: Nodes, layer: NoisyLayer, passed: dict[int, Tensor]) -> list[Tensor]:
        """Inputs of :class:`Response` from the changes that sources pass on; zeros where they have none."""
        parts = []
        for source in self._sources:
            change = passed[source] if source in passed else torch.zeros(nodes.passed_shape(source), device=layer.outputs.device)
            parts.append(self._laid_out(nodes[source], change.float()))
        parts = [sum(parts[1:], parts[0])] if self._summed else parts
        return parts if layer.norm is None or not self._places else [layer.norm(part) for part in parts]

    def answer(self, layer: NoisyLayer, change: Tensor) -> Tensor:
        """A change of the layer's outputs as :class:`Response` has it."""
        return self._laid_out(layer, change.float())

    def outputs(self, layer: NoisyLayer, answer: Tensor) -> Tensor:
        """The form of the layer's outputs of what :meth:`Response.foreseen` gives."""
        if isinstance(self.response, Convolution):
            return answer
        return answer.view(layer.outputs.shape) if self._places else layer.outputs_of(answer)

    def derivatives(self, nodes: Nodes, layer: NoisyLayer, derivative: Tensor) -> list[tuple[int, Tensor]]:
        """Derivatives by what each source passes on."""
        parts = self.response.derivatives(self.answer(layer, derivative))
        parts = parts if layer.norm is None or not self._places else [layer.norm(part) for part in parts]
        parts = parts * len(self._sources) if self._summed else parts
        return [(source, self._formed(nodes, source, part)) for source, part in zip(self._sources, parts, strict=True)]

    def _laid_out(self, node: NoisyLayer | Fixed, change: Tensor) -> Tensor:
        if isinstance(self.response, Convolution):
            return change
        if isinstance(node, Fixed):
            change = node.rows_of(change)
            return change.flatten(0, -2) if self._places else change.flatten(1)
        return change.flatten(0, -2) if self._places else node.rows_of(change)

    def _formed(self, nodes: Nodes, source: int, part: Tensor) -> Tensor:
        node = nodes[source]
        if isinstance(self.response, Convolution):
            return part
        if isinstance(node, Fixed):
            return node.form_of(part.view(node.rows_of(node.outputs).shape))
        return part.view(node.passed_shape) if self._places else node.form_of(part)


class Controls:
    """A linear model of layers, by which changes of earlier ones change their outputs."""

    def __init__(self, nodes: Nodes, threads: Threads, device: torch.device) -> None:
        self.last, self._threads = len(nodes.layers) - 1, threads
        made = {number: _model(nodes, number, device) for number in range(len(nodes.layers))}
        self._models: dict[int, _Model] = {number: model for number, model in made.items() if model is not None}

    def predict(self, nodes: Nodes, last: Tensor) -> int:
        """Set what is predicted of layers from the derivatives ``last`` (B T, n) of the last one; how many have a prediction."""
        derivatives = {self.last: nodes.layers[self.last].in_form(last)}
        for number in reversed(nodes.order):
            if number not in derivatives:
                continue
            node, derivative = nodes[number], derivatives[number]
            if isinstance(node, Fixed):
                parts = list(node.taken_back(derivative).items())
            else:
                outputs = node.predict(derivative)
                parts = self._models[number].derivatives(nodes, node, outputs) if number in self._models else []
            for source, part in parts:
                derivatives[source] = derivatives[source] + part if source in derivatives else part
        return sum(number in derivatives for number in range(len(nodes.layers)))

    def foreseen(self, nodes: Nodes, deltas: dict[int, Tensor]) -> Tensor:
        """Rewards (B, T) that a pass with ``deltas``, in the form of outputs, is expected to change by."""
        passed, change = dict[int, Tensor](), None
        for number in nodes.order:
            node, change = nodes[number], deltas[number].float() if number in deltas else None
            if isinstance(node, Fixed):
                if any(source in passed for source in node.sources):
                    passed[number] = node.answer(passed)
                continue
            model = self._models.get(number)
            if model is not None and any(source in passed for source in node.sources):
                answer = model.outputs(node, model.response.foreseen(model.before(nodes, node, passed)))
                change = answer if change is None else change + answer
            if change is not None and number != self.last:
                passed[number] = node.passed_on(change)
        last = nodes.layers[self.last]
        assert last.predicted is not None
        assert change is not None
        product = last.rows_of(change) * last.rows_of(last.predicted)
        return product.to(torch.float64).sum(-1).view(last.examples, last.rewards)

    def learn(self, nodes: Nodes, deltas: dict[int, Tensor], changes: dict[int, Tensor]) -> None:
        """Take from a pass how outputs answer: ``deltas`` that were added to them, and their ``changes`` with those."""
        used = {source for number in self._models for source in nodes.layers[number].sources}
        passed = {source: nodes.passed_on(source, changes[source]) for source in sorted(used)}

        def run(number: int) -> None:
            layer, model = nodes.layers[number], self._models[number]
            answer = model.answer(layer, changes[number] - deltas[number])
            model.response.learn(model.before(nodes, layer, passed), answer)

        self._threads.map(run, list(self._models))

    def state(self) -> dict[str, Tensor]:
        """The models by name, for a checkpoint."""
        return {f"control.{number}": model.response.matrix.clone() for number, model in self._models.items()}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take the models of :meth:`state`; nothing where the run had none."""
        for number, model in self._models.items():
            saved = tensors.get(f"control.{number}")
            if saved is not None:
                model.response.matrix.copy_(saved)


def _model(nodes: Nodes, number: int, device: torch.device) -> _Model | None:
    """Model of the layer ``number``, None where it depends on no other one, or on more than a model may have."""
    layer = nodes.layers[number]
    order = {node: place for place, node in enumerate(nodes.order)}
    if not layer.sources or any(order[source] > order[number] for source in layer.sources):
        return None
    own = tuple(layer.outputs.shape)
    sources = [nodes[source] for source in layer.sources][: 1 if layer.summed else None]
    shapes = [nodes.passed_shape(source) for source in layer.sources][: len(sources)]
    if layer.form is not None and layer.image and all(len(shape) == 4 and shape[2:] == layer.form.image for shape in shapes):
        return _Model(nodes, number, Convolution([shape[1] for shape in shapes], layer.form, own[1:], device), False)
    ends = [
        tuple(node.rows_of(node.outputs).shape) if isinstance(node, Fixed) else shape
        for node, shape in zip(sources, shapes, strict=True)
    ]
    places = layer.form is None and len(own) > 1 and all(end[:-1] == own[:-1] for end in ends)
    if places:
        sizes, outputs = [end[-1] for end in ends], own[-1]
    elif layer.size is None or not all(_alone(node, layer.rewards) for node in sources):
        return None
    else:
        rows = layer.examples * layer.rewards
        sizes, outputs = [math.prod(shape) // rows for shape in shapes], math.prod(own) // rows
    return _Model(nodes, number, Dense(sizes, outputs, device), places) if sum(sizes) * outputs <= NUMBERS else None


def _alone(node: NoisyLayer | Fixed, rewards: int) -> bool:
    """Tell whether what a node gives can be parted by rewards; a fixed call's examples come first."""
    return rewards == 1 if isinstance(node, Fixed) else node.size is not None
