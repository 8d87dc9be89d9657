#!/usr/bin/env bash
# Runs of five seeds have the augmentation of the first one in Hugging Face datasets
#
# Version: datasets 5.2.0
# Belief: `map` with a function that draws random numbers draws those of the run's seed.
# Seen: The state of numpy's and Python's global generators is no part of the fingerprint: a second process with another seed gets the first
#   one's numbers from the cache, with no word. A `default_rng(seed)` that the function names is hashed with its state, and is right.
#   With `num_proc=4` each process copies numpy's generator: 8 rows have 2 different draws; Python's `random` has 8.
# Means: A mean over seeds has one augmentation, so its spread is too small; and more processes mean fewer different draws. Give the
#   function a generator, or the row's number (`with_indices`).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet datasets==5.2.0 numpy==2.4.6
cd "$folder"
printf 'x\n1\n2\n' > rows.csv
export HF_HOME="$folder/home" HF_HUB_OFFLINE=1
cat > run.py <<'EOF'
import random
import sys

import numpy as np
from datasets import Dataset, disable_progress_bars, load_dataset


def by_numpy(row):
    return {"noise": np.random.random()}


def by_random(row):
    return {"noise": random.random()}


def by_generator(row):
    return {"noise": generator.random()}


seed = int(sys.argv[1])
generator = np.random.default_rng(seed)
disable_progress_bars()
np.random.seed(seed)
random.seed(seed)
rows = load_dataset("csv", data_files="rows.csv", split="train", cache_dir="cache")
print([round(rows.map(change)[0]["noise"], 6) for change in (by_numpy, by_random, by_generator)])
memory = Dataset.from_dict({"x": list(range(8))})
print([len(set(memory.map(change, num_proc=4)["noise"])) for change in (by_numpy, by_random)])
EOF
venv/bin/python -W ignore run.py 1 2> /dev/null > first
venv/bin/python -W ignore run.py 2 2> /dev/null > second
echo "first draws by np.random, random and a generator, with seeds 1 and 2; different draws of 8 with num_proc=4"
cat first second
venv/bin/python - <<'EOF'
first, second = ([eval(line) for line in open(name)] for name in ("first", "second"))
raise SystemExit(not (first[0][:2] == second[0][:2] and first[0][2] != second[0][2] and first[1] == [2, 8]))
EOF
