#!/usr/bin/env bash
# COCO's bbob has other instances each year, and five of 1 to 15 by default
#
# Version: coco-experiment 2.8.2
# Belief: The suite bbob has the instances 1 to 15 of each function, whichever the version, so archived data are for the same
#   problems.
# Seen: Without options instances are 1 to 5 and 71 to 80; with the option year they are 1 to 5 and ten others, or 1 to 15 in
#   2010, or 1 to 5 three times in 2009. An instance has its own optimum and rotation.
# Means: A run set beside archived data of another year shares a third of the problems: targets reached are compared over
#   different functions. Name the instances in the suite's options and in the report.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet coco-experiment==2.8.2 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import cocoex

FIRST = [1, 2, 3, 4, 5]


def instances(year):
    suite = cocoex.Suite("bbob", f"year: {year}" if year else "", "function_indices: 1 dimensions: 2")
    return [int(problem.id.split("_i")[1].split("_")[0]) for problem in suite]


seen = {year: instances(year) for year in (None, 2009, 2010, 2013, 2018, 2023)}
for year, numbers in seen.items():
    print(f"year {year}:", *numbers)
expected = {None: FIRST + list(range(71, 81)), 2009: FIRST * 3, 2010: list(range(1, 16)), 2013: FIRST + list(range(31, 41))}
expected |= {2018: FIRST + list(range(71, 81)), 2023: FIRST + list(range(101, 111))}
raise SystemExit(seen != expected)
EOF
