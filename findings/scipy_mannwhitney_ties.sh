#!/usr/bin/env bash
# One tie makes a Mann-Whitney test significant that no data without ties can make so
#
# Version: scipy 1.17.1, numpy 2.4.6
# Belief: `mannwhitneyu` is exact for few runs, and equal values make a test more careful.
# Seen: Without ties three runs against three have p = 0.1 at best, two-sided. With ties, also within one group alone, the default
#   ("auto") is the normal approximation: three solved runs against three that failed (1, 1, 1 and 0, 0, 0) have p = 0.047, where two of
#   20 arrangements are as extreme, 0.1. Five against five: 0.0040 for 0.0079. One tie can also raise p, from 0.0079 to 0.0119.
# Means: Runs cut at a budget, success rates and rounded returns have ties, so three seeds "differ" at 5 % by the method alone. Give
#   `method=PermutationMethod()`, which counts arrangements, with ties too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
from scipy.stats import PermutationMethod, mannwhitneyu

found = {}
for name, ours, theirs in (
    ("three, no tie", [1, 2, 3], [4, 5, 6]),
    ("three, tie within a group", [1, 2, 2], [4, 5, 6]),
    ("three, equal in each group", [1, 1, 1], [0, 0, 0]),
    ("five, no tie", [1, 2, 3, 4, 5], [6, 7, 8, 9, 10]),
    ("five, tie within a group", [1, 2, 3, 4, 4], [6, 7, 8, 9, 10]),
    ("five, equal in each group", [1] * 5, [0] * 5),
):
    counted = mannwhitneyu(ours, theirs, method=PermutationMethod()).pvalue
    found[name] = round(float(mannwhitneyu(ours, theirs).pvalue), 4), round(float(counted), 4)
    print(f"{name}: p = {found[name][0]} by default, {found[name][1]} by counting arrangements")
three = found["three, no tie"] == (0.1, 0.1) and found["three, equal in each group"] == (0.0469, 0.1)
five = found["five, equal in each group"] == (0.004, 0.0079) and found["five, tie within a group"] == (0.0119, 0.0079)
raise SystemExit(not (three and five and found["three, tie within a group"][0] < 0.08))
EOF
