#!/usr/bin/env bash
# With references nested as in nltk, sacrebleu scores the first answers alone
#
# Version: sacrebleu 2.6.0
# Belief: corpus_bleu(answers, references) takes a list of references for each answer, as nltk's does, or refuses other
#   lengths.
# Seen: The outer list is over sets of references. A list of one reference for each answer is read as many references of the
#   first answer; all other answers are left out with no word. The first of two answers right and the second nonsense: 100;
#   nested rightly: 50.
# Means: A population's rewards of a batch depend on its first answer alone. corpus_chrf and corpus_ter read it likewise.
#   Write [[reference of each answer]], and check that a wrong last answer lowers the score.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sacrebleu==2.6.0
"$folder/venv/bin/python" -W ignore - <<'EOF'
import sacrebleu

answers = ["the cat is on the mat", "xx yy zz ww vv uu"]
references = ["the cat is on the mat", "a dog was over there today"]
scores = {}
for name in ("bleu", "chrf", "ter"):
    score = getattr(sacrebleu, f"corpus_{name}")
    scores[name] = (score(answers, [[each] for each in references]).score, score(answers, [references]).score)
    print(f"{name}: a list for each answer {scores[name][0]:.1f}, one list {scores[name][1]:.1f}")
perfect = {"bleu": 100, "chrf": 100, "ter": 0}
raise SystemExit(not all(abs(first - perfect[name]) < 1e-9 and abs(right - first) > 20 for name, (first, right) in scores.items()))
EOF
