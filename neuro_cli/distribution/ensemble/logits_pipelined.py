"""Logits by a non-blocking all-reduce: members compute the next minibatches while the sum of this one is exchanged.

The price is staleness: a minibatch's logits, and so its gradient, belong to parameters that are ``staleness`` updates old.
"""

from collections import deque

from neuro_cli.algo.ensemble import JointOutcome
from neuro_cli.core.checks import integer
from neuro_cli.distribution.ensemble.base import EnsembleContext, LogitMethod
from neuro_cli.distribution.ensemble.in_flight import Pass, finish, push


class LogitsPipelined(LogitMethod):
    """``staleness``: minibatches that pass forward before the sum for an earlier one is needed, 1 to 8."""

    name = "logits_pipelined"

    def __init__(self, staleness: int, encoding: str) -> None:
        super().__init__(encoding)
        self.staleness = integer("distribution.staleness", staleness, 1, 8)

    def bind(self, job: EnsembleContext) -> None:
        super().bind(job)
        self._flight: deque[Pass] = deque()

    def step(self, iteration: int) -> JointOutcome:
        following = self._flight[-1].number + 1 if self._flight else iteration
        for coming in range(following, iteration + self.staleness + 1):
            self._begin(coming)
        due = self._flight.popleft()
        assert due.number == iteration
        with self.job.clock.phase("communicate"):
            total = due.exchange.wait()
        return self.finish(iteration, due.targets, due.logits, total)

    def _begin(self, iteration: int) -> None:
        batch = self.job.batch(iteration)
        if self.job.threads.count > 1:
            logits = self.logits(iteration, batch.inputs, self.job.members.values())
        else:
            logits = []
            for member in self.job.members.values():
                logits += self.logits(iteration, batch.inputs, [member])
                push(self._flight)
        exchange = self.job.world.start_all_reduce(self.wire.encode(logits))
        self._flight.append(Pass(iteration, batch.targets, logits, exchange))

    def close(self) -> None:
        finish(self._flight)
