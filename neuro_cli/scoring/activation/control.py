"""Control variates of noise on activations: what noise will do to a fitness, predicted, taken off it, and added to the estimate.

Noise e on a layer's outputs changes an example's reward r by about <g, e>, g its derivative by the outputs. For any p that
does not depend on e the estimate ``p + (r - <p, e>) e`` has the mean of ``r e``; what p says of g is no longer noise. That of
the last layer is measured, an output at a time. That of a layer before is linear in the p of a later one, by a matrix that
learns from the noise of earlier generations (normalised least mean squares, Widrow and Hoff 1960). Lansdell, Prakash and
Kording, "Learning to solve the credit assignment problem", ICLR 2020, learn such feedback by node perturbation to use it
instead of the estimate, with its bias; here it stands beside the estimate, which stays without.

Legend: B examples, T rewards of an example, n outputs of a layer for one reward.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.machine.threads import Threads
from neuro_cli.scoring.activation.layer_noise import NoisyLayer

RATE = 0.1  # share of the error that a step takes away, were all features one direction
OUTPUTS = 128  # most of the last layer for a reward: each costs a pass
NUMBERS = 1 << 22  # most in a matrix


class Controls:
    """Matrices that predict derivatives of rewards by outputs; each goes from a later layer's prediction to a layer's.

    ``sizes``: n of each layer, None where noise is not on the outputs of single rewards. Raises ConfigError.
    """

    def __init__(self, sizes: Sequence[int | None], threads: Threads, device: torch.device) -> None:
        self.last, self._threads = len(sizes) - 1, threads
        last = sizes[self.last]
        if last is None or last > OUTPUTS:
            allowed = f"must be false: the network's last layer needs noise on at most {OUTPUTS} outputs for each reward"
            raise ConfigError("sampler.control_variates", True, allowed)
        self._source: dict[int, int] = {}
        self.matrices: dict[int, Tensor] = {}
        predicted = [(self.last, last)]
        for number in reversed(range(self.last)):
            size = sizes[number]
            nearest = None if size is None else next((s for s in reversed(predicted) if s[1] * size <= NUMBERS), None)
            if size is None or nearest is None:
                continue
            self._source[number] = nearest[0]
            self.matrices[number] = torch.zeros(nearest[1], size, device=device)
            predicted.append((number, size))

    def predict(self, layers: Sequence[NoisyLayer], last: Tensor) -> None:
        """Set what is predicted of ``layers`` from the derivatives ``last`` (B, T, n) of the last one."""
        layers[self.last].predict(last)
        for number, matrix in self.matrices.items():  # from the last to the first
            features = layers[self._source[number]].predicted
            assert features is not None
            layers[number].predict(features @ matrix)

    def learn(self, layers: Sequence[NoisyLayer]) -> None:
        """Take from ``layers`` what the noise said beyond the predictions, once."""

        def run(number: int) -> None:
            features, missed = layers[self._source[number]].predicted, layers[number].missed
            if features is None or missed is None:
                return
            power = features.square().sum()
            if power > 0:
                self.matrices[number].addmm_(features.flatten(0, 1).T, missed.flatten(0, 1) * (RATE / power))
            layers[number].missed = None

        self._threads.map(run, list(self.matrices))

    def state(self) -> dict[str, Tensor]:
        """The matrices by name, for a checkpoint."""
        return {f"control.{number}": matrix.clone() for number, matrix in self.matrices.items()}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take the matrices of :meth:`state`; nothing where the run had none."""
        for number, matrix in self.matrices.items():
            saved = tensors.get(f"control.{number}")
            if saved is not None:
                matrix.copy_(saved)
