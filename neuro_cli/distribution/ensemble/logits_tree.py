"""Logits by a binary tree of messages: sums go up from child to parent, the total comes down the same way.

Rank r's parent is (r - 1) // 2. A leaf sends and receives B x K numbers, a node with two children three times as many; the
library's all-reduce may choose a better algorithm. This is the published scheme, and a reference for the others.
"""

import numpy as np

from neuro_cli.distribution.ensemble.base import LogitExchange


class LogitsTree(LogitExchange):
    name = "logits_tree"

    def exchange(self, message: np.ndarray) -> np.ndarray:
        world = self.job.world
        children = [child for child in (2 * world.rank + 1, 2 * world.rank + 2) if child < world.size]
        total = message
        for child in children:  # a fixed order: floats add up to the same bits in every run
            total = total + world.receive(child, message.size, message.dtype)
        if world.rank:
            parent = (world.rank - 1) // 2
            world.send(parent, total)
            total = world.receive(parent, message.size, message.dtype)
        for child in children:
            world.send(child, total)
        return total
