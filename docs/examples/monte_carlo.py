"""Estimates pi on the workers of a task cluster until the error is small: python monte_carlo.py ERROR [HOST:PORT]."""

import math
import struct
import sys
from dataclasses import dataclass
from hashlib import sha256

import neuro_cli as neuro


@dataclass
class Darts(neuro.BaseTask):
    """Throws ``count`` darts at the unit square; scripts/worker.js does the same, to the bit, in JavaScript."""

    seed: int
    count: int

    def run(self) -> dict[str, int]:
        blocks = (sha256(f"{self.seed} {number}".encode()).digest() for number in range(self.count // 4))
        places = (place for block in blocks for place in struct.iter_unpack("<II", block))
        return {"inside": sum((x >> 6) ** 2 + (y >> 6) ** 2 < 2**52 for x, y in places)}


def main() -> None:
    wanted, cluster = float(sys.argv[1]), sys.argv[2:]
    inside = total = 0
    with neuro.BrokerClient(*cluster) if cluster else neuro.BrokerClient.embedded([Darts]) as client:
        client.submit(*(Darts(seed, 20_000) for seed in range(8)))
        for done in client.results():
            if done.error:
                sys.exit(done.error)
            inside, total = inside + done.value["inside"], total + done.task.count
            estimate = 4 * inside / total
            error = math.sqrt(estimate * (4 - estimate) / total)
            if error > wanted:  # one more for each that is done: no worker waits
                client.submit(Darts(client.submitted, 20_000))
    print(f"pi is {estimate:.4f}, standard error {error:.4f}, after {total:,} darts of {client.submitted} tasks")


if __name__ == "__main__":  # the processes of the workers import this file
    main()
