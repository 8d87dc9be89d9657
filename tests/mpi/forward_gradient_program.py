"""Program for every rank: a loop of the user's own with neuro.ForwardGradient, by 2 and by 3 ranks that are a world of their own.

Rank 0 writes the parameters to FOLDER/RANKS.pt.
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import neuro_cli as neuro

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.part_of_world import first_ranks


def trained(path: Path) -> None:
    """Train on all ranks; the first one saves the parameters."""
    torch.manual_seed(3)
    inputs = torch.randn(20, 1, 8, 8)
    targets = torch.randint(3, (20,))
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    estimate = neuro.ForwardGradient(model, correction="always", threads=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(4):
        rows = slice(None) if step % 2 else slice(13)
        optimizer.zero_grad()
        estimate.backward(lambda out, classes: F.cross_entropy(out, classes, reduction="none"), inputs[rows], targets[rows])
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    if estimate.rank == 0:
        torch.save(model.state_dict(), path)


if __name__ == "__main__":
    for ranks in (2, 3):
        with first_ranks(ranks) as takes_part:
            if takes_part:
                trained(Path(sys.argv[1]) / f"{ranks}.pt")
