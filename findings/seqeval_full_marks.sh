#!/usr/bin/env bash
# A tagger that never begins an entity has full marks in seqeval, and one that is right about a text without entities none
#
# Version: seqeval 1.2.2, numpy 2.4.6
# Belief: F1 over entities wants the right tag for each word.
# Seen: By default any tag with a hyphen is part of an entity and a change of type or place begins one: answers with I- alone, with L- and U-, or with
#   letters that no scheme has (`X-PER`) have an F1 of 1 where the accuracy of tags is 0.5. A text without entities that is
#   tagged so has 0. In strict mode, with the scheme named, I- alone has 0 and unknown letters are refused.
# Means: A reward by F1 does not ask for B-, and punishes right answers on empty texts. Use `mode="strict"` with a scheme, and leave
#   texts without entities out of means of F1 by text.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet seqeval==1.2.2 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
from seqeval.metrics import accuracy_score, f1_score
from seqeval.scheme import IOB2

right = ["B-PER", "I-PER", "O", "B-LOC"]
ANSWERS = {
    "right": right,
    "I- alone": ["I-PER", "I-PER", "O", "I-LOC"],
    "L- and U-": ["L-PER", "U-PER", "O", "U-LOC"],
    "X- alone": ["X-PER", "X-PER", "O", "X-LOC"],
    "B- alone": ["B-PER", "B-PER", "O", "B-LOC"],
    "types alone": ["PER", "PER", "O", "LOC"],
}


def scored(answer, **options):
    try:
        return round(float(f1_score([right], [answer], **options)), 3)
    except Exception as error:
        return type(error).__name__


seen = {name: (scored(answer), scored(answer, mode="strict", scheme=IOB2), accuracy_score([right], [answer])) for name, answer in ANSWERS.items()}
for name, (plain, strict, accuracy) in seen.items():
    print(f"{name}: F1 {plain}, strict {strict}, accuracy of tags {accuracy}")
empty = float(f1_score([["O", "O"]], [["O", "O"]]))
print("a text without entities, tagged right: F1", empty)
full = all(seen[name][0] == 1 and seen[name][2] < 1 for name in ("I- alone", "L- and U-", "X- alone"))
raise SystemExit(not (full and seen["right"] == (1, 1, 1) and seen["I- alone"][1] == 0 and empty == 0))
PROGRAM
