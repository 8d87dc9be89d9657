#!/usr/bin/env bash
# A mixture of two data sets that is divided among ranks gives each rank one of them
#
# Version: datasets 5.2.0, grain 0.2.18, torch 2.14.1, numpy 2.4.6
# Belief: Half of each rank's examples come from each source, where two sources are interleaved one to one and then divided among two ranks.
# Seen: Rank 0 has the first source alone and rank 1 the second one: with torch's `DistributedSampler` in order, with
#   `split_dataset_by_node` of a stream, with `shard(contiguous=False)`, and with grain's `mix` and `[rank::2]`. With weights of 1 to 3
#   four ranks have one rank for the first source in grain. Contiguous shards, and weights of 1 to 2 on two ranks, are mixed.
# Means: Each rank's batch statistics, losses and augmentations are those of one source, and a member that one rank scores has another task
#   than its neighbour. Divide the sources first and mix on each rank, or shuffle the mixture.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet datasets==5.2.0 grain==0.2.18 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import grain
from datasets import Dataset, interleave_datasets
from datasets.distributed import split_dataset_by_node
from torch.utils.data import DistributedSampler


def source(first):
    return Dataset.from_dict({"x": list(range(first, first + 12))})


def values(part):
    return [row["x"] for row in part]


def mixed(weights, ranks):
    mixture = grain.MapDataset.mix([grain.MapDataset.range(40), grain.MapDataset.range(100, 140)], weights=weights)
    return [[part[index] for index in range(len(part))] for part in (mixture[rank::ranks] for rank in range(ranks))]


table = interleave_datasets([source(0), source(100)])
stream = interleave_datasets([source(0).to_iterable_dataset(), source(100).to_iterable_dataset()])
seen = {
    "DistributedSampler": [[table[int(at)]["x"] for at in DistributedSampler(table, 2, rank, shuffle=False)] for rank in range(2)],
    "split_dataset_by_node of a stream": [values(split_dataset_by_node(stream, rank, 2)) for rank in range(2)],
    "shard(contiguous=False)": [values(table.shard(2, rank, contiguous=False)) for rank in range(2)],
    "contiguous shard": [values(table.shard(2, rank, contiguous=True)) for rank in range(2)],
    "grain, 1 to 1": mixed([1, 1], 2),
    "grain, 1 to 3, four ranks": mixed([1, 3], 4),
    "grain, 1 to 2": mixed([1, 2], 2),
}
shares = {name: [round(sum(x < 100 for x in part) / len(part), 2) for part in parts] for name, parts in seen.items()}
for name, share in shares.items():
    print(f"{name}: share of the first source on each rank {share}")
divided = ("DistributedSampler", "split_dataset_by_node of a stream", "shard(contiguous=False)", "grain, 1 to 1")
holds = all(shares[name] == [1, 0] for name in divided) and shares["grain, 1 to 3, four ranks"] == [1, 0, 0, 0]
raise SystemExit(not (holds and shares["contiguous shard"] == [0.5, 0.5] and max(shares["grain, 1 to 2"]) < 0.4))
PROGRAM
