"""Prediction of rewards' changes by the backward graph: models of the calls' responses, and derivatives of the rewards.

Legend: B examples, T rewards of an example, n outputs of a layer for one reward.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from neuro_cli.activation_noise.backward_graph import BackwardNode
from neuro_cli.activation_noise.clean_pass import PassRecord
from neuro_cli.activation_noise.layer_noise import NoisyLayer, real
from neuro_cli.activation_noise.noisy_pass import ObservedChanges
from neuro_cli.activation_noise.response import Diagonal, MatrixResponse, Response
from neuro_cli.core.machine.threads import Threads


class ResponseModels:
    """Models of the backward graphs' nodes, one for all calls with the same parameters and form, each zero at its first call."""

    def __init__(self) -> None:
        self._models: dict[tuple[Any, ...], Response] = {}
        self._restored: dict[str, Tensor] = {}

    def attach(self, nodes: Sequence[BackwardNode], device: torch.device) -> None:
        """Give the nodes of a pass their models."""
        for node in nodes:
            if node.make_model is not None and node.key not in self._models:
                model = self._models[node.key] = node.make_model(device)
                # checkpoints of earlier versions number the models
                number = f"control.{len(self._models) - 1}"
                saved = self._restored.get(_name(node.key), self._restored.get(number))
                if saved is not None:
                    model.matrix.copy_(saved)
            node.response = self._models.get(node.key)

    def learn(
        self, nodes: Sequence[BackwardNode], passes: Sequence[ObservedChanges], noise: Callable[[int, Sequence[int]], Tensor],
        turn: int, threads: Threads,
    ) -> None:  # fmt: skip
        """Learn from nodes' responses to unit inputs or to ``noise`` (of the node's number and a shape), or from ``passes``.

        ``turn`` chooses among unit inputs where a fit has room for some.
        Passes are one, a mirrored pair, or none where all nodes can respond.
        """
        numbers: dict[tuple[Any, ...], list[int]] = {}
        for number, node in enumerate(nodes):
            if node.key in self._models and (node.respond is not None or (passes and number in passes[0])):
                numbers.setdefault(node.key, []).append(number)

        @torch.no_grad()
        def run(key: tuple[Any, ...]) -> None:
            model, calls, changes = self._models[key], numbers[key], []
            only = nodes[calls[0]] if len(calls) == 1 else None
            if only is not None and only.is_linear and only.inputs is not None and isinstance(model, MatrixResponse):
                units = model.units(only.inputs.shape, turn)
                if units is not None:
                    model.read(only.response_to(units)[1])
                    return
            for node, number in ((nodes[number], number) for number in calls):
                entries = model.entries(node.outputs.shape, len(calls))
                if node.respond is not None:
                    assert node.inputs is not None
                    changes.append(node.response_to(noise(number, (entries, *node.inputs.shape[1:]))))
                else:
                    few = None if isinstance(model, Diagonal) else entries
                    changes.append(node.changes([seen[number] for seen in passes], few))
            model.learn(changes)

        threads.map(run, list(numbers))

    def state(self) -> dict[str, Tensor]:
        """Return the models by name, for a checkpoint; before the first generation since a resume those that it restored."""
        return self._restored | {_name(key): model.matrix.clone() for key, model in self._models.items()}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Restore a :meth:`state`; a model that it lacks begins at zero."""
        self._models, self._restored = {}, {name: tensor.clone() for name, tensor in tensors.items()}


def _name(key: tuple[Any, ...]) -> str:
    """Return the name of a model in a checkpoint."""
    return "control." + "/".join(map(str, key))


class RewardPredictor:
    """Derivatives of a generation's rewards by the layers' outputs, taken at once. ``count``: layers that have one.

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
