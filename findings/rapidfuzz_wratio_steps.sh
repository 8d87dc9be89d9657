#!/usr/bin/env bash
# A longer right beginning of an answer scores less than a shorter one in RapidFuzz, and one word has full marks
#
# Version: rapidfuzz 3.14.6
# Belief: A similarity grows as an answer comes nearer to the expected text.
# Seen: By `WRatio`, the measure that `process.extract` uses, the first 8 of 43 letters score 90 and the first 28 too; the first 29 score 81, for the
#   weights change with the ratio of lengths. By `partial_ratio`, `token_set_ratio` and `partial_token_set_ratio` the answer `the` has 100.
# Means: A policy is paid for stopping early: adding right letters loses nine points. The plain `ratio` of the same answers rises all the
#   way. Use it for rewards.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet rapidfuzz==3.14.6
"$folder/venv/bin/python" - <<'EOF'
from rapidfuzz import fuzz

expected = "the cat sat on the mat because it was tired"
lengths = (8, 20, 28, 29, 36, 43)
for name in ("WRatio", "ratio"):
    print(name, {length: round(getattr(fuzz, name)(expected[:length], expected), 1) for length in lengths})
full = {name: getattr(fuzz, name)("the", expected) for name in ("partial_ratio", "token_set_ratio", "partial_token_set_ratio", "ratio")}
print("the answer `the`:", {name: round(value, 1) for name, value in full.items()})
weighted = [fuzz.WRatio(expected[:length], expected) for length in range(1, 44)]
plain = [fuzz.ratio(expected[:length], expected) for length in range(1, 44)]
fall = weighted[27] - weighted[28]
print(f"WRatio falls by {fall:.1f} from 28 to 29 letters; ratio rises with each letter: {plain == sorted(plain)}")
raise SystemExit(not (fall > 8 and plain == sorted(plain) and sum(value == 100 for value in full.values()) == 3))
EOF
