#!/usr/bin/env bash
# A WordPiece vocabulary trained twice on the same lines numbers the same pieces differently
#
# Version: tokenizers 0.23.3
# Belief: Training counts and draws nothing, so the same lines give the same file, as they do for BPE and WordLevel.
# Seen: Six trainings in one process give six files for WordPiece and six for Unigram, one for BPE and WordLevel. Texts are split
#   into nearly the same pieces, but WordPiece has other numbers for them each time, and Unigram mostly.
# Means: A run that trains its tokenizer at its start cannot be repeated or resumed: rows of a saved embedding belong to other
#   pieces, without an error, and ranks that each train it score other networks. Train once and keep the file.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tokenizers==0.23.3
"$folder/venv/bin/python" - <<'EOF'
import random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

random.seed(1)
words = "the quick brown fox jumps over lazy dog lower newer wider lowest newest widest running jumper overlaying".split()
lines = [" ".join(random.choices(words, k=8)) for _ in range(200)]
quiet = {"vocab_size": 80, "show_progress": False}
KINDS = {
    "BPE": lambda: (models.BPE(), trainers.BpeTrainer(**quiet)),
    "WordLevel": lambda: (models.WordLevel(unk_token="[UNK]"), trainers.WordLevelTrainer(special_tokens=["[UNK]"], **quiet)),
    "WordPiece": lambda: (models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(special_tokens=["[UNK]"], **quiet)),
    "Unigram": lambda: (models.Unigram(), trainers.UnigramTrainer(unk_token="[UNK]", special_tokens=["[UNK]"], **quiet)),
}


def trained(kind):
    model, trainer = KINDS[kind]()
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


files, pieces = {}, {}
for kind in KINDS:
    six = [trained(kind) for _ in range(6)]
    files[kind] = len({one.to_str() for one in six})
    numbers = len({tuple(i for line in lines for i in one.encode(line).ids) for one in six})
    pieces[kind] = len({tuple(t for line in lines for t in one.encode(line).tokens) for one in six})
    print(f"{kind}: of six trainings {files[kind]} files, {numbers} ways to number the lines, {pieces[kind]} to split them")
raise SystemExit(not (files["BPE"] == files["WordLevel"] == 1 and files["WordPiece"] > 1 and files["Unigram"] > 1))
EOF
