"""Evolves a network on the bundled digits and resumes where it ended: python resume.py STATE GENERATIONS."""

import hashlib
import os
import sys

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

import neuro_cli as neuro

path, generations = sys.argv[1], int(sys.argv[2])
digits = load_digits()
inputs, targets = torch.from_numpy(digits.data).float() / 16, torch.from_numpy(digits.target)

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
es = neuro.Evolution(model, sampler="low_rank", population=64, lr=0.05)
if os.path.exists(path):
    es.load_state_dict(torch.load(path, weights_only=True))
while es.generation < generations:
    start = 128 * es.generation % 1664
    report = es.step(lambda member: -F.cross_entropy(member(inputs[start:][:128]), targets[start:][:128]))
    if es.rank == 0 and es.generation % 5 == 0:
        torch.save(es.state_dict(), path + ".new")
        os.replace(path + ".new", path)  # a kill at any moment leaves a complete file
        print(f"generation {es.generation}: fitness {report.fitness_mean:.4f}", flush=True)
if es.rank == 0:
    with torch.no_grad():
        right = (model(inputs).argmax(1) == targets).float().mean()
    print(f"{right:.2%} are right, parameters {hashlib.sha256(es.centre.numpy().tobytes()).hexdigest()[:16]}")
