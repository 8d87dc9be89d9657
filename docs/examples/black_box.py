"""Finds the stiffness and the damping of a spring from its motion, by ask and tell: python black_box.py GENERATIONS."""

import sys

import numpy as np
import torch

import neuro_cli as neuro


def motion(stiffness: float, damping: float) -> np.ndarray:
    """Positions of a mass on a spring that is let go at 1: a simulator that only shows its outcome."""
    position, speed, positions = 1.0, 0.0, []
    for _ in range(200):
        speed -= 0.05 * (stiffness * position + damping * speed)
        position += 0.05 * speed
        positions.append(position)
    return np.array(positions)


measured = motion(2.5, 0.3)
es = neuro.Evolution(torch.tensor([1.0, 1.0]), algo="snes", population=32, sigma=0.2, seed=1)
for _ in range(int(sys.argv[1])):
    candidates = es.ask()
    es.tell([-np.square(motion(*vector.tolist()) - measured).mean() for vector in candidates.vectors])
if es.rank == 0:
    stiffness, damping = es.centre.tolist()
    print(f"generation {es.generation}: stiffness {stiffness:.3f}, damping {damping:.3f}")
