"""Prediction of rewards' changes by the backward graph: models of the calls' responses, and derivatives of the rewards.

Legend: B examples, T rewards of an example, n outputs of a layer for one reward.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from neuro_cli.activation_noise.derivatives.arguments import FunctionOf
from neuro_cli.activation_noise.derivatives.backward_graph import BackwardNode
from neuro_cli.activation_noise.derivatives.response import Kernel, MatrixResponse, Response
from neuro_cli.activation_noise.noise.layer_noise import NoisyLayer, real
from neuro_cli.activation_noise.noise.noisy_pass import ObservedChanges
from neuro_cli.activation_noise.recording.clean_pass import PassRecord
from neuro_cli.core.machine.threads import Threads

SHARE = 0.25  # products of models that are read completely in each fit, over those of the modelled calls in a pass
FEW = 1 << 25  # the same, where that is less: a millisecond or two, which recording a pass takes as well


class ResponseModels:
    """Models of the backward graphs' nodes, one for all calls that are the same function, each zero at its first call."""

    def __init__(self) -> None:
        self._models: dict[tuple[Any, ...], Response] = {}
        self._restored: dict[str, Tensor] = {}

    def attach(self, nodes: Sequence[BackwardNode], device: torch.device) -> None:
        """Give the nodes of a pass their models: one for all calls that are the same function of their input."""
        functions: dict[tuple[Any, ...], list[FunctionOf]] = {}
        for node in nodes:
            if node.make_model is None or node.function is None:
                continue
            earlier = functions.setdefault(node.key, [])
            # slices of one parameter are calls with the same parameters, and other functions
            first = next((place for place, other in enumerate(earlier) if node.function.is_like(other)), len(earlier))
            earlier.append(node.function)
            key = (*node.key, first) if first else node.key
            if key not in self._models:
                model = self._models[key] = node.make_model(device)
                # checkpoints of earlier versions number the models
                number = f"control.{len(self._models) - 1}"
                saved = self._restored.get(_name(key), self._restored.get(number))
                if saved is not None:
                    model.matrix.copy_(saved)
            node.response = self._models[key]

    def learn(self, nodes: Sequence[BackwardNode], passes: Sequence[ObservedChanges], turn: int, threads: Threads) -> None:
        """Read off linear nodes' responses to unit inputs, and learn the others from ``passes``.

        ``turn`` chooses unit inputs if a fit has room for only some. There is one pass, a mirrored pair, or none if all nodes
        are read.
        """
        calls: dict[Response, list[int]] = {}
        for number, node in enumerate(nodes):
            if node.response is not None and (node.is_read or (passes and number in passes[0])):
                calls.setdefault(node.response, []).append(number)
        complete = _read_completely({model: [nodes[number] for number in numbers] for model, numbers in calls.items()})

        def run(model: Response) -> None:
            with torch.no_grad():
                fit(model, calls[model])

        def fit(model: Response, numbers: list[int]) -> None:
            first = nodes[numbers[0]]
            if all(nodes[number].is_read for number in numbers):
                units = model.units(_shape_of_all([nodes[number] for number in numbers]), turn, model in complete)
                model.read(*first.response_to(units))
                if isinstance(model, MatrixResponse) and model.rows_to_follow:
                    _follow(model, [nodes[number] for number in numbers])
                return
            assert isinstance(model, MatrixResponse)
            changes = []
            for number in numbers:
                entries = model.entries(nodes[number].outputs.shape, len(numbers))
                changes.append(nodes[number].changes([seen[number] for seen in passes], entries))
            model.learn(changes)

        threads.map(run, list(calls))

    def state(self) -> dict[str, Tensor]:
        """Return the models by name, for a checkpoint; before the first generation since a resume those that it restored."""
        return self._restored | {_name(key): model.matrix.clone() for key, model in self._models.items()}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Restore a :meth:`state`; a model that it lacks begins at zero."""
        self._models, self._restored = {}, {name: tensor.clone() for name, tensor in tensors.items()}


def _shape_of_all(nodes: Sequence[BackwardNode]) -> tuple[int, ...]:
    """Return the shape of the inputs of several calls in one."""
    inputs = [node.inputs for node in nodes if node.inputs is not None]
    one = inputs[0].shape[1:]
    return (sum(each.numel() for each in inputs) // math.prod(one), *one)


def _follow(model: MatrixResponse, nodes: Sequence[BackwardNode]) -> None:
    """Update the unread part of a model from inputs and outputs of the clean pass."""
    inputs, outputs, left = list[Tensor](), list[Tensor](), model.rows_to_follow
    for node in nodes:
        each = math.prod(node.outputs.shape[1:]) // model.matrix.shape[-1]  # rows that an entry gives
        change = node.from_zero(-(-left // each))
        inputs.append(model.input_rows(change[0])[:left])
        outputs.append(model.output_rows(change[1])[:left])
        left -= len(inputs[-1])
        if not left:
            break
    model.follow(torch.cat(inputs), torch.cat(outputs))


def _read_completely(calls: dict[Response, list[BackwardNode]]) -> set[Response]:
    """Return the models whose units take so few products that all of them are read in each fit, the cheapest ones first."""
    costs, present = dict[Response, int](), 0
    for model, nodes in calls.items():
        if isinstance(model, MatrixResponse | Kernel):
            unknowns, shape = model.matrix.shape[-2], _shape_of_all(nodes)
            present += unknowns * sum(node.outputs.numel() for node in nodes)
            costs[model] = unknowns * model.units_of_all(shape) * math.prod(nodes[0].outputs.shape[1:])
    cheap, total = set[Response](), 0
    for model in sorted(costs, key=costs.__getitem__):
        total += costs[model]
        if total > max(SHARE * present, FEW):
            break
        cheap.add(model)
    return cheap


def _name(key: tuple[Any, ...]) -> str:
    """Return the name of a model in a checkpoint."""
    return "control." + "/".join(map(str, key))


class RewardPredictor:
    """Derivatives of a generation's rewards by the layers' outputs, taken at once. ``count``: layers that have one.

    ``missed``: layers without one that the rewards depend on. One that they do not reach has a derivative of zero.
    ``last``: derivatives (B T, n) by the outputs of the last layer, None where the rewards themselves are in the backward graph.
    ``joint``: with the graph that :meth:`predict` needs.
    """

    def __init__(self, record: PassRecord, layers: Sequence[NoisyLayer], last: Tensor | None, joint: bool) -> None:
        end, device = layers[-1], layers[-1].outputs.device
        # derivatives are those of the rewards' sum with these weights: a second one by the weights tells the rewards apart
        weights = torch.ones(end.examples * end.rewards, 1, dtype=torch.float64, device=device, requires_grad=joint)
        assert record.root is not None
        with torch.enable_grad():
            if last is None:
                assert record.scores is not None
                outputs, seed = record.scores[..., 0], weights.view(record.scores.shape[:2])
            else:
                outputs = record.calls[record.layers[-1].call].result
                seed = end.like_outputs(last * weights).to(end.outputs.dtype)
        # the derivative by the root is not needed: on the way to it each node keeps that by its outputs
        torch.autograd.grad([outputs], [record.root], [seed], retain_graph=True, create_graph=joint, allow_unused=True)
        self._weights = weights
        derivatives = {number: layer.node.derivative for number, layer in enumerate(layers) if layer.node is not None}
        self._derivatives = {number: derivative for number, derivative in derivatives.items() if derivative is not None}
        self.count = len(self._derivatives)
        without = [layer for number, layer in enumerate(layers) if number not in self._derivatives]
        used = record.used if without else set[int]()
        self.missed = [layer for layer in without if layer.call in used]

    def predict(self, deltas: dict[int, Tensor]) -> Tensor:
        """Return the change (B T,) of the rewards that a pass with ``deltas`` is expected to bring."""
        with torch.enable_grad():
            parts = [
                (real(derivative) * real(deltas[number].to(derivative.dtype))).sum()
                for number, derivative in self._derivatives.items()
                if number in deltas
            ]
        if not parts:
            return torch.zeros(len(self._weights), dtype=torch.float64, device=self._weights.device)
        [change] = torch.autograd.grad(parts, [self._weights], retain_graph=True)
        return change[:, 0]
