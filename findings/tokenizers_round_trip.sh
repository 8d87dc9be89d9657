#!/usr/bin/env bash
# The text of the same tokens depends on which class decodes them
#
# Version: tokenizers 0.23.3, transformers 5.24.0
# Belief: decode(encode(text)) is the text for a byte-level vocabulary, and a transformers tokenizer decodes as the tokenizers
#   object inside it.
# Seen: tokenizers leaves special tokens out by default, transformers keeps them: 'the cat' and 'the cat<eos>'. A byte-level
#   pre-tokenizer with its defaults puts a space before the text, which decode gives back. A WordPiece decoder changes 'a , b'
#   into 'a, b'.
# Means: A reward that compares strings is 0 for a right answer by one class and 1 by the other, for every member: a flat
#   fitness without an error. Compare ids, or name skip_special_tokens and strip both sides.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tokenizers==0.23.3 transformers==5.24.0
"$folder/venv/bin/python" - <<'EOF'
from tokenizers import BertWordPieceTokenizer, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

lines = ["the cat sat on the mat , and the dog did not", "a , b"] * 50
inner = Tokenizer(models.BPE())
inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
inner.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=400, special_tokens=["<eos>"], initial_alphabet=alphabet))
outer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>")
ids = inner.encode("the cat<eos>").ids
texts = inner.decode(ids), outer.decode(ids)
print(f"ids {ids}: tokenizers {texts[0]!r}, transformers {texts[1]!r}")
spaced = inner.decode(inner.encode("yes").ids)
print(f"'yes' encoded and decoded: {spaced!r}")
pieces = BertWordPieceTokenizer()
pieces.train_from_iterator(lines, vocab_size=200)
cleaned = pieces.decode(pieces.encode("a , b").ids)
print(f"'a , b' by WordPiece: {cleaned!r}")
raise SystemExit(texts != (" the cat", " the cat<eos>") or spaced != " yes" or cleaned != "a, b")
EOF
