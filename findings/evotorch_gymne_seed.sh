#!/usr/bin/env bash
# No seed reaches the episodes of EvoTorch's GymNE, and those of VecGymNE follow Python's `random`
#
# Version: evotorch 0.6.1, gymnasium 1.4.0, torch 2.14.1, numpy 2.4.6
# Belief: `torch.manual_seed`, numpy's and Python's seeds and `problem.manual_seed(1)` make a run of EvoTorch on a gymnasium environment repeatable.
# Seen: GymNE resets its environment without a seed, so that equal members of two problems have other returns with all four seeds set.
#   VecGymNE draws its environments' seed from Python's `random`: it repeats with `random.seed`, and with the other three alone it does not.
# Means: A seed of a paper that used GymNE repeats the initial population alone, and paired comparisons are not paired. Give an `env` function
#   that seeds the first reset, and seed Python's `random` for VecGymNE.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet evotorch==0.6.1 gymnasium==1.4.0 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import logging
import random

import numpy as np
import torch
from evotorch.neuroevolution import GymNE, VecGymNE

logging.disable(logging.CRITICAL)


def returns(kind, python_seed):
    """Members of seed 1 and the returns of one episode of each."""
    random.seed(python_seed)
    np.random.seed(1)
    torch.manual_seed(1)
    problem = kind("CartPole-v1", "Linear(obs_length, act_length)")
    problem.manual_seed(1)
    batch = problem.generate_batch(32)
    problem.evaluate(batch)
    return batch.values.clone(), batch.evals[:, 0].tolist()


cases = {"GymNE, all four seeds": (GymNE, 1, 1), "VecGymNE, all four seeds": (VecGymNE, 1, 1), "VecGymNE, another seed of Python's": (VecGymNE, 1, 2)}
repeats = {}
for name, (kind, first, second) in cases.items():
    (members, one), (same, two) = returns(kind, first), returns(kind, second)
    repeats[name] = torch.equal(members, same), one == two
    print(f"{name}: members the same {repeats[name][0]}, returns the same {repeats[name][1]}; mean return {np.mean(one):.2f} and {np.mean(two):.2f}")
raise SystemExit(list(repeats.values()) != [(True, False), (True, True), (True, False)])
PROGRAM
