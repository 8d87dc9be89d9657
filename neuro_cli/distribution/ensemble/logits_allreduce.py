"""Logits by the library's all-reduce: B x K numbers out and in, independent of the networks' size."""

import numpy as np

from neuro_cli.distribution.ensemble.base import LogitExchange


class LogitsAllReduce(LogitExchange):
    name = "logits_allreduce"

    def exchange(self, message: np.ndarray) -> np.ndarray:
        self.job.world.all_reduce(message)
        return message
