#!/usr/bin/env bash
# For SymPy 0.5 is not 1/2, and their difference, simplified, is not 0
#
# Version: sympy 1.14.0
# Belief: An answer is right if `simplify(answer - expected) == 0`, or if both are equal, whichever way a number is written.
# Seen: `Rational(1, 2) == Float(0.5)` and `Integer(2) == Float(2.0)` are false since SymPy 1.13, though `Float(0.5) == 0.5` is true. The difference is
#   0 as a Float, which is not the 0 of `== 0` for a plain number. `x + 2.0` is not `x + 2` either. `equals`, or `is_zero` of the difference, says yes.
# Means: A reward by either test gives 0 for `0.5` where `1/2` is expected and the other way, so a policy is trained on the form of numbers; and
#   scores of older SymPys cannot be compared. Use `(a - b).is_zero` or `a.equals(b)`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sympy==1.14.0
"$folder/venv/bin/pip" install --quiet --target "$folder/old" sympy==1.12.1
cat > "$folder/program.py" <<'EOF'
from sympy import simplify, sympify

for answer, expected in (("0.5", "1/2"), ("2.0", "2"), ("x + 2.0", "x + 2"), ("0.25*x", "x/4")):
    a, b = sympify(answer), sympify(expected)
    print(answer, "|", expected, "|", a == b, simplify(a - b) == 0, bool((a - b).is_zero), bool(a.equals(b)), sep="\t")
EOF
echo "answer, expected, ==, simplify(a - b) == 0, is_zero, equals: SymPy 1.14.0, then 1.12.1"
"$folder/venv/bin/python" -W ignore "$folder/program.py" | tee "$folder/new.txt"
PYTHONPATH="$folder/old" "$folder/venv/bin/python" -W ignore "$folder/program.py" | tee "$folder/before.txt"
head -2 "$folder/new.txt" | grep -c 'False	False	True	True' | grep -qx 2
! grep -q 'False	False	True	True' "$folder/before.txt"
