#!/usr/bin/env bash
# A constant answer has full marks in two data sets of reasoning-gym
#
# Version: reasoning-gym 0.1.25
# Belief: The reward is 1 for the right answer alone, since each problem has one that can be checked.
# Seen: In coin_flip, which asks for a probability, "0" has 1.0 on 187 of 200 problems: the share of equal digits from the left is
#   taken of the shorter number. In game_of_life_halting any answer has 1.0, "banana" too: texts are compared as truth values.
# Means: Evolution finds such answers at once, and a mean over many data sets rises while nothing is learnt. Look at constant answers first:
#   their score is the floor of a table.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet reasoning-gym==0.1.25
"$folder/venv/bin/python" - <<'EOF'
import reasoning_gym

as_seen = True
for name, constant, full in (("coin_flip", "0", 187), ("game_of_life_halting", "banana", 200), ("gcd", "0", 0)):
    data = reasoning_gym.create_dataset(name, size=200, seed=3)
    scores = [data.score_answer(constant, each) for each in data]
    print(f"{name}: answers {[data[row]['answer'] for row in range(4)]} ..., {constant!r} has full marks on {scores.count(1.0)} of 200")
    as_seen &= scores.count(1.0) == full
raise SystemExit(not as_seen)
EOF
