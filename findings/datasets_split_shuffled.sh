#!/usr/bin/env bash
# A stream of Hugging Face datasets that is shuffled and then split trains on its test examples from the second epoch on
#
# Version: datasets 5.2.0, numpy 2.4.6
# Belief: `test = stream.take(6)` and `train = stream.skip(6)` of a shuffled stream stay apart; `stream.shuffle(seed).repeat(3)` has three orders.
# Seen: The documentation advises to shuffle before the split. `train.set_epoch(1)` shuffles below the split again, so that 2 of 6 test examples
#   are in the training part of epochs 1 and 2; where both parts are given the epoch, 2 and 3 test examples were trained on in an epoch before.
#   The repeated stream has one order, three times.
# Means: A test score over epochs is one on seen data. Split before the shuffle, by files or by a column, and call `shuffle` on the training
#   part; shuffle with `set_epoch` in place of `repeat`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet datasets==5.2.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
from datasets import Dataset


def stream(shards):
    return Dataset.from_dict({"x": list(range(24))}).to_iterable_dataset(num_shards=shards)


def rows(part):
    return [row["x"] for row in part]


shuffled = stream(4).shuffle(seed=0, buffer_size=4)
test, train, fixed, trained, leaks, moving = shuffled.take(6), shuffled.skip(6), set(rows(shuffled.take(6))), set(), [], []
for epoch in range(3):
    train.set_epoch(epoch)
    test.set_epoch(epoch)
    leaks.append(len(fixed & set(rows(train))))
    moving.append(len(set(rows(test)) & trained))
    trained |= set(rows(train))
    print(f"epoch {epoch}: of 6 test examples in the training part {leaks[-1]}; of a test part with the epoch set, trained on before {moving[-1]}")
repeated = rows(stream(1).shuffle(seed=0, buffer_size=24).repeat(3))
orders = {tuple(repeated[start : start + 24]) for start in (0, 24, 48)}
print(f"orders of a shuffled stream that is repeated three times: {len(orders)}")
raise SystemExit(not (leaks[0] == moving[0] == 0 and min(leaks[1:]) > 0 and min(moving[1:]) > 0 and len(orders) == 1))
PROGRAM
