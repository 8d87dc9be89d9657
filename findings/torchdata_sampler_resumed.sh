#!/usr/bin/env bash
# A StatefulDataLoader with one of torch's samplers goes on in another order after a resume: examples come twice, and others never
#
# Version: torchdata 0.11.0, torch 2.14.1, numpy 2.4.6
# Belief: A restored StatefulDataLoader gives the rest of the epoch, whatever its sampler.
# Seen: It does with `shuffle=True`, which takes torchdata's own sampler. Of `SubsetRandomSampler`, `WeightedRandomSampler` and `RandomSampler` of
#   torch the state has the number of examples alone: the new process draws another order and leaves out that many. Of 24 examples with
#   a resume after 10 four to six come twice and as many never, with no word. With a `generator` of a fixed seed all are right.
# Means: Training on a part of a data set by indices loses examples at each resume, and a test by batches looks right. Give the sampler a
#   generator whose seed is that of the epoch, or `shuffle=True` over a `Subset`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchdata==0.11.0 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
from torch.utils.data import RandomSampler, SubsetRandomSampler, WeightedRandomSampler
from torchdata.stateful_dataloader import StatefulDataLoader

DATA = list(range(24))
KINDS = {
    "shuffle=True": lambda: {"shuffle": True},
    "SubsetRandomSampler": lambda: {"sampler": SubsetRandomSampler(DATA)},
    "WeightedRandomSampler": lambda: {"sampler": WeightedRandomSampler([1.0] * 24, 24, replacement=False)},
    "RandomSampler": lambda: {"sampler": RandomSampler(DATA)},
    "SubsetRandomSampler with a generator": lambda: {"sampler": SubsetRandomSampler(DATA, torch.Generator().manual_seed(5))},
}


def loader(kind, seed):
    """Return the loader of a new process, whose global seed is another one."""
    torch.manual_seed(seed)
    return StatefulDataLoader(DATA, batch_size=2, **KINDS[kind]())


seen = {}
for kind in KINDS:
    first = loader(kind, 1)
    batches = iter(first)
    before = [each for _ in range(5) for each in next(batches).tolist()]
    state, rest = first.state_dict(), [each for batch in batches for each in batch.tolist()]
    second = loader(kind, 2)
    second.load_state_dict(state)
    after = [each for batch in second for each in batch.tolist()]
    seen[kind] = after == rest, len(set(before) & set(after)), 24 - len(set(before + after))
    print(f"{kind}: the rest as without a pause: {after == rest}; twice {seen[kind][1]}, never {seen[kind][2]}")
wrong = {kind for kind, (same, twice, never) in seen.items() if not same and twice and never}
raise SystemExit(wrong != {"SubsetRandomSampler", "WeightedRandomSampler", "RandomSampler"})
PROGRAM
