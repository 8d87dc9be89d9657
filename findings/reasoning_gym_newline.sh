#!/usr/bin/env bash
# A line break behind the right answer halves its reward in reasoning-gym
#
# Version: reasoning-gym 0.1.25
# Belief: A right answer has the reward 1; blanks around it do not count, or make it wrong.
# Seen: The common score is the length of the answer over the length of what was said. "7" with a line break behind it has 0.5,
#   "12345" with one 0.83; n_queens and string_insertion give 0. 48 of 105 data sets gave less than 1 for their own answer with a
#   line break.
# Means: Answers that a language model generates end with a line break or not, by the way it stops: means of two programs differ by half, and
#   problems with short answers weigh less. Strip answers before they are scored.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet reasoning-gym==0.1.25
"$folder/venv/bin/python" - <<'EOF'
import reasoning_gym

exact = True
for name in ("gcd", "basic_arithmetic", "largest_island", "n_queens", "string_insertion"):
    data = reasoning_gym.create_dataset(name, size=4, seed=7)
    right = [data.score_answer(each["answer"], each) for each in data]
    broken = [data.score_answer(each["answer"] + "\n", each) for each in data]
    print(name, [each["answer"][:8] for each in data], "right:", right, "with a line break:", [round(score, 2) for score in broken])
    by_length = [len(each["answer"]) / (len(each["answer"]) + 1) for each in data]
    wanted = [0.0] * 4 if name in ("n_queens", "string_insertion") else by_length
    exact &= right == [1.0] * 4 and all(abs(a - b) < 1e-9 for a, b in zip(broken, wanted))
raise SystemExit(not exact)
EOF
