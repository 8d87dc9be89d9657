#!/usr/bin/env bash
# The similarity of two almost equal texts falls to 0 from 200 letters on
#
# Version: difflib of Python 3.11
# Belief: SequenceMatcher(None, a, b).ratio() is near 1 for texts that differ by one letter, at any length.
# Seen: From 200 letters of the second text on, letters that make up more than a hundredth of it are left out as popular.
#   Two texts of 198 and 197 letters that differ by one have 0.997; of 202 and 201 they have 0.0. Order counts too: tide and
#   diet have 0.25, diet and tide 0.5.
# Means: A reward by ratio() is a cliff at 200 letters, where few distinct letters (digits, bits, DNA, a grid of cells) are
#   the whole answer, and members are punished for length. Say autojunk=False, and put the reference in one place always.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pip
"$folder/venv/bin/python" -W ignore - <<'EOF'
from difflib import SequenceMatcher


def ratio(first, second, **options):
    return SequenceMatcher(None, first, second, **options).ratio()


short, long = (("ab" * count, "b" + "ab" * (count - 1)) for count in (99, 101))
found = ratio(*short), ratio(*long), ratio(*long, autojunk=False)
order = ratio("tide", "diet"), ratio("diet", "tide")
print(f"lengths {[len(each) for each in short]}: {found[0]:.3f}; {[len(each) for each in long]}: {found[1]:.3f}, without autojunk {found[2]:.3f}")
print(f"tide and diet: {order[0]}, diet and tide: {order[1]}")
raise SystemExit(not (found[0] > 0.99 and found[1] == 0 and found[2] > 0.99 and order == (0.25, 0.5)))
EOF
