#!/usr/bin/env bash
# A perfect short answer has a corpus BLEU of 0
#
# Version: sacrebleu 2.6.0
# Belief: BLEU of an answer that equals its reference is 100.
# Seen: corpus_bleu of 'hello world' with itself is 0: there are no groups of four words, and it does not leave them out.
#   sentence_bleu of the same pair is 100, since it counts effective orders by default. One longer sentence beside it lifts
#   both to 100.
# Means: As a reward of short answers corpus_bleu is 0 for every member, and the same answers are right or wrong by which
#   other examples are in the batch. Use effective_order or chrF.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sacrebleu==2.6.0
"$folder/venv/bin/python" -W ignore - <<'EOF'
import sacrebleu

short, long = "hello world", "the cat sat on the mat today"
corpus = sacrebleu.corpus_bleu([short], [[short]]).score
both = sacrebleu.corpus_bleu([short, long], [[short, long]]).score
sentence = sacrebleu.sentence_bleu(short, [short]).score
effective = sacrebleu.corpus_bleu([short], [[short]], use_effective_order=True).score
print(f"corpus_bleu {corpus:.0f}, with a longer answer beside it {both:.0f}")
print(f"sentence_bleu {sentence:.0f}, corpus_bleu with effective order {effective:.0f}")
raise SystemExit([round(value) for value in (corpus, both, sentence, effective)] != [0, 100, 100, 100])
EOF
