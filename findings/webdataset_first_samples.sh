#!/usr/bin/env bash
# A WebDataset epoch that is shorter than the data has the same first samples each time, and the others never
#
# Version: webdataset 1.0.2, torch 2.14.1, numpy 2.4.6
# Belief: `with_epoch(10)` cuts the stream into epochs of ten samples, of which the next begins where the last one ended.
# Seen: Each epoch begins at the first sample. Of 24 samples 14 are in none of twelve epochs. `shuffle(4)` before it mixes the first ones, and
#   those behind its buffer never come. With two workers an epoch has 20 samples, ten from each, and the last two of each shard are lost.
# Means: Training on a small part of the data, with no word, and longer epochs with more workers. Take `resampled=True`, or `repeat()` and
#   one iterator that lives as long as the run.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet webdataset==1.0.2 torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'PROGRAM'
import io
import tarfile

import torch
import webdataset

SHARDS, EPOCHS = 2, 12


def number(sample):
    return int(sample["__key__"])


def epochs(workers, repeat=None, shuffle=0):
    dataset = webdataset.WebDataset([f"{shard}.tar" for shard in range(SHARDS)], shardshuffle=False)
    dataset = dataset.shuffle(shuffle) if shuffle else dataset
    dataset = dataset.map(number).repeat(repeat).with_epoch(10) if repeat else dataset.map(number).with_epoch(10)
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers)
    return [list(loader) for _ in range(EPOCHS if not workers else 3)]


def main():
    for shard in range(SHARDS):
        with tarfile.open(f"{shard}.tar", "w") as archive:
            for sample in range(12 * shard, 12 * shard + 12):
                archive.addfile(tarfile.TarInfo(f"{sample:02d}.txt"), io.BytesIO())
    seen = {"plain": epochs(0), "shuffle(4)": epochs(0, shuffle=4), "repeat(100)": epochs(0, repeat=100), "two workers": epochs(2)}
    for name, lists in seen.items():
        lists = [list(map(int, samples)) for samples in lists]
        ever = set().union(*lists)
        print(f"{name}: {len(lists[0])} samples in an epoch, of 24 never seen {24 - len(ever)}: {sorted(set(range(24)) - ever)}")
        seen[name] = len(lists[0]), len(ever), max(ever)
    ok = seen["plain"] == (10, 10, 9) and seen["repeat(100)"] == (10, 10, 9) and seen["two workers"][:2] == (20, 20)
    raise SystemExit(not (ok and seen["shuffle(4)"][2] < 16))


if __name__ == "__main__":
    main()
PROGRAM
"$folder/venv/bin/python" -W ignore program.py
