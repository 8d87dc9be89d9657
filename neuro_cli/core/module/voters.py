"""Networks that vote: a module that is several, one after the other.

Legend: k voters, B examples, K classes.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn


class Voters(nn.Module):
    """Several networks, the best first. Called as one it gives logits whose argmax is the class that most of them choose."""

    count: int

    @abstractmethod
    def each(self) -> Iterator[nn.Module]:
        """Yield the voters. A voter may change when the next one is asked for."""

    def forward(self, inputs: Tensor) -> Tensor:
        choices, classes = [], 0
        for voter in self.each():
            logits = voter(inputs)
            classes = logits.shape[-1]
            choices.append(logits.argmax(-1))
        return tally(torch.stack(choices), classes)


def tally(choices: Tensor, classes: int) -> Tensor:
    """Return logits (B, .., K) from the classes (k, B, ..) that voters choose: logarithms of shares, each class with a vote more.

    Of classes with equally many votes the one of the best voter has the highest logit.
    """
    count = len(choices)
    votes = torch.zeros(*choices.shape[1:], classes, dtype=torch.float32, device=choices.device)
    for number in reversed(range(count)):  # the first vote of a class counts a little more, the earlier the more
        choice = choices[number][..., None]
        earlier = votes.gather(-1, choice).floor()
        votes.scatter_(-1, choice, earlier + 1 + (count - number) / (4 * count))
    return ((votes + 1) / (votes + 1).sum(-1, keepdim=True)).log()


def voters_of(module: nn.Module) -> Iterable[nn.Module]:
    """Return the voters of ``module``, or itself alone."""
    return module.each() if isinstance(module, Voters) else [module]


def most_frequent(answers: Sequence[str | None]) -> str:
    """Return the answer that most voters give, the first of equally frequent ones; an empty one is no vote."""
    given = Counter(answer for answer in answers if answer)
    return given.most_common(1)[0][0] if given else ""
