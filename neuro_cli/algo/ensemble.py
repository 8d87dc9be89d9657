"""Joint training of an ensemble of M networks with one prediction and one loss (Webb 2019; Webb et al. 2019, arXiv 1902.04422).

The ensemble is a product of experts: its prediction is the normalised geometric mean of the members' predictions,
q = softmax(mean of the members' logits), and the loss is the cross-entropy of q. A member needs only q from the
others: the gradient of the loss with respect to its logits is (q - p) / (M B), the same for every member.

Legend: M members, B examples, K classes; p one-hot targets.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.algo.base import Algorithm
from neuro_cli.algo.centre.torch_optimizer import OptimizerFactory
from neuro_cli.core.checks import boolean, integer, one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.schedule import Schedule

DTYPES = {"float32": torch.float32, "float64": torch.float64}


class Ensemble(Algorithm):
    """Settings of ``algo=ensemble``.

    ``size``: members with the network of the group ``model``; ``members``: config nodes of others in addition (read where the
    networks are built). Raises ConfigError.
    """

    def __init__(
        self,
        size: int,
        members: list[object],
        dtype: str,
        keep_last_step: bool,
        optimizer: OptimizerFactory,
        lr_schedule: Schedule,
    ) -> None:
        self.size = integer("algo.size", size, 0)
        if not isinstance(members, list):
            raise ConfigError("algo.members", members, "must be a list, for example [{model: MNIST_10K, count: 3}]")
        if not size and not members:
            raise ConfigError("algo.size", size, "an ensemble needs at least one member: size > 0, or algo.members")
        self.dtype = DTYPES[one_of("algo.dtype", dtype, tuple(DTYPES))]
        self.keep_last_step = boolean("algo.keep_last_step", keep_last_step)
        self.optimizer, self.lr_schedule = optimizer, lr_schedule


@dataclass(frozen=True)
class JointOutcome:
    """Outcome of one minibatch: the ensemble's mean ``loss``, its ``accuracy``, and dL/df (B, K) of every member."""

    loss: float
    accuracy: float
    gradient: Tensor


def joint_outcome(mean_logits: Tensor, targets: Tensor, members: int, examples: int | None = None) -> JointOutcome:
    """Return the outcome of ``mean_logits`` (B, K), the mean over all ``members``, for ``targets`` (B,) int64.

    ``examples`` of the minibatch where (B, K) is a share of it; loss and accuracy are then the share's part of the minibatch's
    means.
    """
    examples = examples or len(targets)
    log_q = F.log_softmax(mean_logits, dim=1)
    losses = F.nll_loss(log_q, targets, reduction="none")
    gradient = log_q.exp()
    gradient[torch.arange(len(targets), device=targets.device), targets] -= 1
    correct = (mean_logits.argmax(1) == targets) & losses.isfinite()  # argmax of NaN is some class, which might be the right one
    return JointOutcome(
        float(losses.sum(dtype=torch.float64)) / examples,
        float(correct.sum()) / examples,
        gradient.div_(members * examples),
    )
