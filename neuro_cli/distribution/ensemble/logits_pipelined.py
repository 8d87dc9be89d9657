"""Logits by a non-blocking all-reduce: members compute the next minibatches while the sum of this one is exchanged.

The price is staleness: a minibatch's logits, and so its gradient, belong to parameters that are ``staleness`` updates old.
"""

from neuro_cli.algo.ensemble import JointOutcome
from neuro_cli.core.checks import integer
from neuro_cli.distribution.ensemble.in_flight import LogitsInFlight


class LogitsPipelined(LogitsInFlight):
    """Pipeline of passes; ``staleness``: minibatches that run forward before the sum for an earlier one is needed, 1 to 8."""

    name = "logits_pipelined"

    def __init__(self, staleness: int, encoding: str) -> None:
        super().__init__(encoding)
        self.staleness = integer("distribution.staleness", staleness, 1, 8)

    def step(self, iteration: int) -> JointOutcome:
        following = self.flight[-1].number + 1 if self.flight else iteration
        for coming in range(following, iteration + self.staleness + 1):
            self._pass(coming)
        due, total = self.oldest()
        assert due.number == iteration
        return self.finish(iteration, due.targets, due.logits, total)

    def _pass(self, iteration: int) -> None:
        batch = self.job.batch(iteration)
        if self.job.threads.count > 1:
            logits = self.logits(iteration, batch.inputs, self.job.members.values())
        else:
            logits = []
            for member in self.job.members.values():
                logits += self.logits(iteration, batch.inputs, [member])
                self.push()
        self.begin(iteration, batch.targets, logits)
