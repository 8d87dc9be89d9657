#!/usr/bin/env bash
# reasoning-gym makes other problems from one seed in another process
#
# Version: reasoning-gym 0.1.25, Python 3.11
# Belief: `create_dataset(name, size=N, seed=S)` is a function of name, size and seed: a machine can make its problems itself.
# Seen: In two processes whose PYTHONHASHSEED differs, as it does where it is not set, 5 of the 105 data sets differ:
#   isomorphic_strings, knight_swap, polynomial_multiplication, ransom_note and word_ladder. The other 100 agree.
# Means: Ranks and peers score members on different problems, and a resumed run trains on others. Set PYTHONHASHSEED, or
#   write the problems to a file once.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet reasoning-gym==0.1.25
cd "$folder"
cat > made.py <<'EOF'
import hashlib
import json

import reasoning_gym

CHANGING = ("isomorphic_strings", "knight_swap", "polynomial_multiplication", "ransom_note", "word_ladder")
STABLE = ("basic_arithmetic", "countdown", "gcd", "syllogism", "word_sorting")
digests = {}
for name in (*CHANGING, *STABLE):
    data = reasoning_gym.create_dataset(name, size=6, seed=7)
    digests[name] = hashlib.sha256(json.dumps([(each["question"], str(each["answer"])) for each in data]).encode()).hexdigest()
print(json.dumps(digests))
EOF
for seed in 1 2; do PYTHONHASHSEED=$seed "$folder/venv/bin/python" made.py > "$seed.json"; done
"$folder/venv/bin/python" - <<'EOF'
import json

first, second = (json.load(open(f"{seed}.json")) for seed in (1, 2))
differ = sorted(name for name in first if first[name] != second[name])
print("of", len(first), "data sets these differ:", differ)
wanted = ["isomorphic_strings", "knight_swap", "polynomial_multiplication", "ransom_note", "word_ladder"]
raise SystemExit(differ != wanted)
EOF
