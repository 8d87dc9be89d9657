"""Scans settings of an evolution strategy on a task cluster, the best for longer: python scan.py GENERATIONS [HOST:PORT]."""

import sys
from dataclasses import dataclass, replace
from itertools import product

import neuro_cli as neuro


@dataclass
class Training(neuro.BaseTask):
    """Training of a small network on the bundled digits; what a worker needs is imported by the worker alone."""

    sampler: str
    lr: float
    sigma: float
    generations: int

    def run(self) -> float:
        import torch
        from sklearn.datasets import load_digits
        from torch.nn.functional import cross_entropy

        inputs, targets = map(torch.from_numpy, load_digits(return_X_y=True))
        inputs = inputs.float() / 16
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
        es = neuro.Evolution(model, sampler=self.sampler, population=64, lr=self.lr, sigma=self.sigma)
        for generation in range(self.generations):
            batch = slice(generation % 10, 1500, 10)
            es.step(lambda member: -cross_entropy(member(inputs[batch]), targets[batch]))
        return float((model(inputs[1500:]).argmax(1) == targets[1500:]).float().mean())


def main() -> None:
    generations, cluster, best = int(sys.argv[1]), sys.argv[2:], 0.0
    with neuro.BrokerClient(*cluster) if cluster else neuro.BrokerClient.embedded([Training]) as client:
        grid = product(("iid", "low_rank"), (0.01, 0.05), (0.02, 0.1))
        client.submit(*(Training(*settings, generations) for settings in grid))
        for done in client.results():
            print(f"{done.value:.3f}  {done.task}" if not done.error else done.error, flush=True)
            if not done.error and done.value > best and done.task.generations == generations:
                best = done.value  # so far: worth four times as many generations
                client.submit(replace(done.task, generations=4 * generations))


if __name__ == "__main__":  # the processes of the workers import this file
    main()
