#!/usr/bin/env bash
# WebDataset's `resampled=True, seed=1` draws other shards in each run
#
# Version: webdataset 1.0.2, torch 2.14.1, numpy 2.4.6
# Belief: `WebDataset(urls, resampled=True, seed=1)` samples shards with replacement, in an order that the seed fixes.
# Seen: The seed does not reach the sampler, which draws from the process, the clock and random bytes of the system. Five data sets with
#   one seed begin with five orders of twelve shards. `shardshuffle=12, seed=1` without `resampled` gives one order, as expected of the
#   first, in each epoch, too.
# Means: Runs with one seed have other data, and a run that is repeated to find a fault is another run. Build the pipeline from
#   `ResampledShards(urls, seed=1, deterministic=True)`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet webdataset==1.0.2 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import io
import tarfile

import webdataset

urls = [f"{shard:02d}.tar" for shard in range(12)]
for shard, url in enumerate(urls):
    with tarfile.open(url, "w") as archive:
        member = tarfile.TarInfo(f"{shard}.txt")
        member.size = len(str(shard))
        archive.addfile(member, io.BytesIO(str(shard).encode()))


def order(dataset):
    return tuple(int(sample["__key__"]) for sample, _ in zip(dataset, range(12)))


def fixed():
    return webdataset.DataPipeline(webdataset.ResampledShards(urls, seed=1, deterministic=True), webdataset.tarfile_to_samples())


seen = {
    "resampled=True, seed=1": [order(webdataset.WebDataset(urls, resampled=True, shardshuffle=False, seed=1)) for _ in range(5)],
    "shardshuffle=12, seed=1": [order(webdataset.WebDataset(urls, shardshuffle=12, seed=1)) for _ in range(5)],
    "ResampledShards(seed=1, deterministic=True)": [order(fixed()) for _ in range(5)],
}
for name, orders in seen.items():
    print(f"{name}: {len(set(orders))} orders of 5; {orders[0]}, {orders[1]}")
raise SystemExit([len(set(orders)) for orders in seen.values()] != [5, 1, 1])
PROGRAM
