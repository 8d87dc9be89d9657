"""Trains a small network on the digits of scikit-learn: python digits.py [GENERATIONS], or mpiexec -n 4 python digits.py."""

import sys

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

import neuro_cli as neuro

generations = int(sys.argv[1]) if sys.argv[1:] else 100
images, labels = map(torch.from_numpy, load_digits(return_X_y=True))
torch.manual_seed(1)
module = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
es = neuro.Evolution(module, sampler="low_rank", population=128, lr=0.05)
for generation in range(generations):
    x, y = images[generation % 7 :: 7].float() / 16, labels[generation % 7 :: 7]
    report = es.step(lambda member: -cross_entropy(member(x), y))  # higher is better
if es.rank == 0:
    with torch.no_grad():
        right = (module(images.float() / 16).argmax(1) == labels).double().mean()
    print(f"generation {es.generation}: {right:.1%} of the digits are right")
    torch.save(es.state_dict(), "state.pt")  # es.load_state_dict continues with the same bits
