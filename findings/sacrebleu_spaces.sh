#!/usr/bin/env bash
# chrF sees no spaces, TER no case, BLEU both
#
# Version: sacrebleu 2.6.0
# Belief: A perfect chrF or TER means that the answer equals the reference.
# Seen: By default chrF removes white space: `12 34` for `1 234` and `nowhere` for `now here` have 100. TER lowers the case
#   of all letters: `NOT A` for `not a` has no error. BLEU sees case.
# Means: A reward by chrF cannot teach spaces, a format or which digits make a number, and one by TER no case. chrF has
#   whitespace=True, TER case_sensitive=True.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sacrebleu==2.6.0
"$folder/venv/bin/python" -W ignore - <<'EOF'
from sacrebleu.metrics import BLEU, CHRF, TER

pairs = [("12 34", "1 234"), ("nowhere", "now here")]
loose = [CHRF().sentence_score(*[pair[0], [pair[1]]]).score for pair in pairs]
strict = [CHRF(whitespace=True).sentence_score(pair[0], [pair[1]]).score for pair in pairs]
answer, reference = "NOT A word of this", "not a word of this"
ter = TER().sentence_score(answer, [reference]).score, TER(case_sensitive=True).sentence_score(answer, [reference]).score
bleu = BLEU(effective_order=True).sentence_score(answer, [reference]).score
print(f"chrF of {pairs}: {loose}, with whitespace {[round(each, 1) for each in strict]}")
print(f"TER of {answer!r} for {reference!r}: {ter[0]}, case-sensitive {ter[1]:.1f}; BLEU {bleu:.1f}")
raise SystemExit(not (loose == [100.0, 100.0] and max(strict) < 100 and ter[0] == 0 and ter[1] > 0 and bleu < 100))
EOF
