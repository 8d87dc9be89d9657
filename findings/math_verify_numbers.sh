#!/usr/bin/env bash
# math-verify reads numbers that programs and people write as other numbers
#
# Version: math-verify 0.9.0, latex2sympy2-extended as it asks for, sympy 1.14.0
# Belief: An answer that is a number is compared by its value, in any usual way of writing it.
# Seen: In dollar signs 1e3 is 1 times Euler's number times 3, and `1 234` is 235. Out of them `1 1/2` is 1 and 12:30 is 12.
#   0.0000001 and 0.0000002 count as equal, 1/3 and 0.333333 too, 1/3 and 0.333 not.
# Means: A right answer of a model (1e3 for 1000, 1 1/2 for 1.5) has reward 0, and a wrong one (12:45 for 12:30) has 1. Fix
#   the form that a prompt asks for, and try the reward on the data's own answers first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'math-verify[antlr4_13_2]==0.9.0' sympy==1.14.0
"$folder/venv/bin/python" -W ignore - <<'EOF'
import logging

from math_verify import parse, verify

logging.disable(logging.CRITICAL)
CASES = {
    ("$1e3$", "1000"): False,
    ("1234", "$1 234$"): False,
    ("1.5", "1 1/2"): False,
    ("1", "1 1/2"): True,
    ("12:30", "12:45"): True,
    ("$0.0000001$", "$0.0000002$"): True,
    ("$1/3$", "0.333333"): True,
    ("$1/3$", "0.333"): False,
}
seen = {}
for gold, answer in CASES:
    read = parse(answer)
    seen[gold, answer] = verify(parse(gold), read)
    print(f"gold {gold}, answer {answer}, read as {read[0] if read else None}: {seen[gold, answer]}")
raise SystemExit(seen != CASES)
EOF
