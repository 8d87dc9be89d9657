#!/usr/bin/env bash
# math-verify takes the right side of any equation for the answer, and the first of two numbers
#
# Version: math-verify 0.9.0, latex2sympy2-extended as it asks for, sympy 1.14.0
# Belief: An answer is right if it says what the gold answer says; verify(gold, answer) asks whether two things are equal.
# Seen: `$x+y=2$` is right for 2, and 2 is right for `x+y=2`. `The answer is 2 or 3` is right for 2, and `3 or 2` is not.
#   50\% is right for 0.5 and for 50. `(1,2)` against `1 < x < 2` is wrong with the interval as gold, and right with the two
#   exchanged.
# Means: A search by rewards finds such answers: it need not solve for x, may name several candidates with the likeliest
#   first, and need not know whether a share is asked for. Ask for one \boxed number, and count those only.
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
    ("$2$", "$x+y=2$"): True,
    ("$x+y=2$", "$2$"): True,
    ("$2$", "The answer is 2 or 3"): True,
    ("$2$", "The answer is 3 or 2"): False,
    ("$0.5$", "50%"): True,
    ("$50$", "50%"): True,
    ("$(1,2)$", "$1 < x < 2$"): False,
    ("$1 < x < 2$", "$(1,2)$"): True,
}
seen = {pair: verify(parse(pair[0]), parse(pair[1])) for pair in CASES}
for (gold, answer), right in seen.items():
    print(f"gold {gold}, answer {answer}: {right}")
raise SystemExit(seen != CASES)
EOF
