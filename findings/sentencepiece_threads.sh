#!/usr/bin/env bash
# A sentencepiece vocabulary has other numbers for the same pieces by the number of threads it was trained with
#
# Version: sentencepiece 0.2.3
# Belief: Training is deterministic: the same sentences and settings give the same vocabulary, with any number of threads.
# Seen: Two trainings with one number of threads are the same. With 1, 2, 3 and 16 threads (the default is 16) the unigram pieces are the same
#   set, with scores that differ in the sixth digit, and some stand in another order, so that one id is two pieces.
# Means: Weights of an embedding belong to the file they were trained with: a vocabulary that is trained again elsewhere, from the
#   same data, exchanges tokens without an error.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sentencepiece==0.2.3
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import io
import random

import sentencepiece

draw = random.Random(0)
words = lambda: "".join(draw.choices("abcdefghij", weights=[9, 8, 7, 6, 5, 4, 3, 2, 1, 1], k=draw.randint(2, 9)))
sentences = [" ".join(words() for _ in range(10)) for _ in range(1500)]


def trained(threads):
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=file, vocab_size=500, hard_vocab_limit=False, num_threads=threads, minloglevel=9
    )
    model = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
    return [model.id_to_piece(i) for i in range(model.get_piece_size())]


one, again = trained(1), trained(1)
other = {threads: trained(threads) for threads in (2, 3, 16)}
moved = {threads: sum(a != b for a, b in zip(one, pieces)) for threads, pieces in other.items()}
print(f"{len(one)} pieces; trained twice with one thread: same {one == again}; places that differ by threads: {moved}")
place = next(((t, i) for t, pieces in other.items() for i in range(len(one)) if one[i] != pieces[i]), None)
if place:
    print(f"id {place[1]} is {one[place[1]]!r} with one thread and {other[place[0]][place[1]]!r} with {place[0]}")
raise SystemExit(not (one == again and max(moved.values()) > 0 and all(set(one) == set(pieces) for pieces in other.values())))
EOF
