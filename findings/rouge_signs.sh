#!/usr/bin/env bash
# ROUGE sees no signs, points or letters beyond a to z
#
# Version: rouge-score 0.1.2
# Belief: ROUGE compares words, so an answer that equals its reference has 1, and another number has less.
# Seen: The tokenizer keeps a to z and digits alone. -5 equals 5, 3.14 equals 3 14, and C++ equals C, all with 1. A Greek
#   answer that equals its reference has 0. With the stemmer universe equals university.
# Means: As a reward it cannot tell 5 from -5, and it is 0 for everything in most of the world's scripts, so evolution gets
#   no signal at all. Give a tokenizer of your own to RougeScorer.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet rouge-score==0.1.2 'setuptools<81'
"$folder/venv/bin/python" -W ignore - <<'EOF'
from rouge_score import rouge_scorer

plain, stemmed = (rouge_scorer.RougeScorer(["rougeL"], use_stemmer=stem) for stem in (False, True))
CASES = {
    ("-5", "5"): 1.0,
    ("3.14", "3 14"): 1.0,
    ("C++", "C"): 1.0,
    ("\u03c4\u03bf \u03b3\u03b1\u03c4\u03af", "\u03c4\u03bf \u03b3\u03b1\u03c4\u03af"): 0.0,
}
seen = {pair: plain.score(*pair)["rougeL"].fmeasure for pair in CASES}
word = stemmed.score("universe", "university")["rougeL"].fmeasure
for pair, score in seen.items():
    print(f"{pair}: {score}")
print(f"with the stemmer, universe and university: {word}")
raise SystemExit(not (seen == CASES and word == 1.0))
EOF
