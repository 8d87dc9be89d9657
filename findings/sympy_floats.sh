#!/usr/bin/env bash
# For SymPy an answer of 0.5 is not equal to 1/2, nor 2.0 to 2
#
# Version: sympy 1.14.0
# Belief: Two parsed numbers are equal where their values are, as in Python.
# Seen: `sympify("0.5") == sympify("1/2")` is false, and so are `2.0` and `2`, `x + 2.0` and `x + 2`, `Rational(1, 2) == 0.5` and `Integer(2) == 2.0`, while
#   `Float(0.5) == 0.5` is true. `simplify(a - b) == 0`, `is_zero` and `equals` say yes to all pairs.
# Means: A reward by `==`, or a set of right answers, gives 0 for `0.5` where `1/2` is expected and the other way, so a policy is trained on
#   the form of numbers. Compare differences.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sympy==1.14.0
"$folder/venv/bin/python" -W ignore - <<'EOF'
from sympy import Float, Integer, Rational, simplify, sympify

print("answer, expected, ==, simplify(a - b) == 0, is_zero, equals")
seen = {}
for answer, expected in (("0.5", "1/2"), ("2.0", "2"), ("x + 2.0", "x + 2"), ("0.25*x", "x/4")):
    a, b = sympify(answer), sympify(expected)
    seen[answer] = a == b, simplify(a - b) == 0, bool((a - b).is_zero), bool(a.equals(b))
    print(answer, expected, *seen[answer], sep="\t")
plain = Rational(1, 2) == 0.5, Integer(2) == 2.0, Float(0.5) == 0.5
print("against Python's numbers, 1/2, 2 and Float(0.5):", plain)
raise SystemExit(not (set(seen.values()) == {(False, True, True, True)} and plain == (False, False, True)))
EOF
