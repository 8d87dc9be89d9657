"""Control variates of noise on activations: what noise will do to a fitness, predicted, taken off it, and added to the estimate.

Noise e on a layer's outputs changes an example's reward r by about <g, e>, g its derivative by the outputs. For any p that
does not depend on e the estimate ``p + (r - <p, e>) e`` has the mean of ``r e``; what p says of g is no longer noise. It is
taken along the chain of changes (see :mod:`link`) from the rewards back, or from the last layer where those are steps: then a
pass for each of its outputs measures its derivative. The chain's models of calls with parameters are learnt: a pass with noise in
all layers at once shows how each call's outputs answer to its input, as many numbers as there are outputs, where a reward is one.

Akrout, Wilson, Humphreys, Lillicrap and Tweed, "Deep learning without weight transport", NeurIPS 2019, learn feedback weights
from responses to noise, and Lansdell, Prakash and Kording, "Learning to solve the credit assignment problem", ICLR 2020, from
rewards; both use the feedback instead of the estimate, with its bias. Here it stands beside the estimate, which stays without.

Legend: B examples, T rewards of an example, n outputs of a layer for one reward.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from neuro_cli.core.machine.threads import Threads
from neuro_cli.scoring.activation.clean_pass import CleanCalls
from neuro_cli.scoring.activation.layer_noise import NoisyLayer
from neuro_cli.scoring.activation.link import Link
from neuro_cli.scoring.activation.noisy_pass import Shown
from neuro_cli.scoring.activation.response import Response


class Controls:
    """Models of the links of a network's passes, one for all calls with the same parameters."""

    def __init__(self, links: Sequence[Link], threads: Threads, device: torch.device) -> None:
        self._threads = threads
        self._models: dict[tuple[Any, ...], Response] = {}
        for link in links:
            if link.learns and _key(link) not in self._models:
                self._models[_key(link)] = link.made(device)

    def predict(self, calls: CleanCalls, layers: Sequence[NoisyLayer], last: Tensor | None, kept: bool) -> "Prediction":
        """Set what is predicted of layers.

        ``last``: derivatives (B T, n) of the last one, None where the rewards themselves are in the chain. ``kept``: with the
        graph that :meth:`Prediction.foreseen` needs.
        """
        for link in calls.links:
            link.response = self._models.get(_key(link))
        return Prediction(calls, layers, last, kept)

    def learn(self, links: Sequence[Link], passes: Sequence[Shown]) -> None:
        """Take from a pass, or a mirrored pair of them, how the outputs of links answered to their input."""
        met: dict[tuple[Any, ...], list[int]] = {}
        for number in sorted(passes[0]):
            if _key(links[number]) in self._models:
                met.setdefault(_key(links[number]), []).append(number)

        def run(key: tuple[Any, ...]) -> None:
            self._models[key].learn([links[number].changes([shown[number] for shown in passes]) for number in met[key]])

        self._threads.map(run, list(met))

    def state(self) -> dict[str, Tensor]:
        """The models by number, for a checkpoint."""
        return {f"control.{number}": model.matrix.clone() for number, model in enumerate(self._models.values())}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take the models of :meth:`state`; nothing where the run had none."""
        for number, model in enumerate(self._models.values()):
            saved = tensors.get(f"control.{number}")
            if saved is not None:
                model.matrix.copy_(saved)


class Prediction:
    """Derivatives of a generation's rewards along the chain. ``count``: of layers that have one."""

    def __init__(self, calls: CleanCalls, layers: Sequence[NoisyLayer], last: Tensor | None, kept: bool) -> None:
        end, device = layers[-1], layers[-1].outputs.device
        # derivatives are those of the sum of rewards with these weights: a derivative by them parts the rewards again
        weights = torch.ones(end.examples * end.rewards, 1, dtype=torch.float64, device=device, requires_grad=kept)
        assert calls.root is not None
        with torch.enable_grad():
            if last is None:
                assert calls.scores is not None
                made, seed = calls.scores[..., 0], weights.view(calls.scores.shape[:2])
            else:
                made, seed = calls.calls[calls.layers[-1].call].made, end.in_form(last * weights).to(end.outputs.dtype)
        torch.autograd.grad([made], [calls.root], [seed], retain_graph=True, create_graph=kept, allow_unused=True)
        self._weights = weights
        self._derivatives = {number: layer.link.derivative for number, layer in enumerate(layers) if layer.link is not None}
        for number, layer in enumerate(layers):
            derivative = self._derivatives.get(number)
            layer.predicted = None if derivative is None else derivative.detach()
        self.count = sum(layer.predicted is not None for layer in layers)

    def foreseen(self, deltas: dict[int, Tensor]) -> Tensor:
        """Rewards (B T,) that a pass with ``deltas``, in the form of outputs, is expected to change by."""
        with torch.enable_grad():
            parts = [
                (derivative * deltas[number].to(derivative.dtype)).sum()
                for number, derivative in self._derivatives.items()
                if derivative is not None and number in deltas
            ]
        if not parts:
            return torch.zeros(len(self._weights), dtype=torch.float64, device=self._weights.device)
        [made] = torch.autograd.grad(parts, [self._weights], retain_graph=True)
        return made[:, 0]


def _key(link: Link) -> tuple[Any, ...]:
    return (*link.names, *link.form)
