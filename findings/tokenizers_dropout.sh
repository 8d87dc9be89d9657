#!/usr/bin/env bash
# BPE dropout has no seed, and is part of the saved file
#
# Version: tokenizers 0.23.3
# Belief: Dropout of merges is for training, and random.seed or numpy's seed fixes it as it does other augmentations.
# Seen: It is drawn in Rust from the system's randomness: under one seed of random two encodings of one text differ. The saved
#   file has it, so a loaded tokenizer goes on dropping merges in evaluation.
# Means: Members of one generation see other inputs for the same text, and mirrored pairs no longer differ by their noise alone; a
#   rescored member has another fitness. Set `tokenizer.model.dropout = None` before anything is scored.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tokenizers==0.23.3
"$folder/venv/bin/python" - <<'EOF'
import random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

tokenizer = Tokenizer(models.BPE(dropout=0.5))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
text = "the lowest newest widest dog jumps over the lazy fox"
tokenizer.train_from_iterator([text] * 50, trainers.BpeTrainer(vocab_size=80, show_progress=False))
tokenizer.model.dropout = 0.5
loaded = Tokenizer.from_str(tokenizer.to_str())


def encodings(of):
    random.seed(0)
    return [of.encode(text).ids for _ in range(20)]


same = encodings(loaded) == encodings(loaded)
print("dropout of the loaded file:", loaded.model.dropout, "- encodings under one seed equal:", same)
loaded.model.dropout = None
print("after dropout = None, different encodings of 20:", len(set(map(tuple, encodings(loaded)))))
raise SystemExit(same or len(set(map(tuple, encodings(loaded)))) != 1)
EOF
