#!/usr/bin/env bash
# Runs of neighbouring seeds share their random transforms in Grain's data loader, one record later
#
# Version: grain 0.2.18
# Belief: Seeds 1 and 2 give independent augmentations, so that five seeds are five samples.
# Seen: The generator of a record is keyed by seed + index: record 1 of seed 1 draws what record 0 of seed 2 draws, and so on along the
#   epoch, shuffled or not. `MapDataset.seed(1)` and `seed(2)` share nothing.
# Means: Means over seeds 1 to 5 are of correlated runs; their spread is too small. Take seeds further apart than the records of all
#   epochs, or MapDataset.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet grain==0.2.18
"$folder/venv/bin/python" - 2> /dev/null <<'EOF'
import grain.python as grain


class Draw(grain.RandomMapTransform):
    def random_map(self, record, generator):
        return round(float(generator.random()), 6)


def loader(seed, shuffle):
    sampler = grain.IndexSampler(num_records=8, shuffle=shuffle, seed=seed, num_epochs=1, shard_options=grain.NoSharding())
    return list(grain.DataLoader(data_source=range(8), sampler=sampler, operations=[Draw()], worker_count=0))


def mapped(seed):
    return list(grain.MapDataset.range(8).seed(seed).random_map(lambda record, generator: float(generator.random())))


for seed in (1, 2):
    print(f"seed {seed}:", loader(seed, True))
shifted = all(loader(1, shuffle)[1:] == loader(2, shuffle)[:-1] for shuffle in (False, True))
shared = set(mapped(1)) & set(mapped(2))
print("shifted by one record:", shifted, "| shared draws of MapDataset:", len(shared))
raise SystemExit(not shifted or bool(shared))
EOF
