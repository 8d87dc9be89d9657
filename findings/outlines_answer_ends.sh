#!/usr/bin/env bash
# Under outlines-core a complete answer can hardly be longer: 1.5 is refused token by token, and (a|ab) never gives ab
#
# Version: outlines-core 0.2.14
# Belief: A regular expression lets through what it matches: "[0-9]+(\.[0-9]+)?" gives decimals, and "yes|yes, please" both
#   answers.
# Seen: Where what was written so far is a complete match, a token must make another complete match: after 1 the tokens "."
#   and "1." are refused, ".5" is taken, so decimals depend on the tokenizer. Of alternatives the first that matches ends the
#   answer: "a|ab" refuses ab in one token and in two, "ab|a" takes it. With a letter after the group all is right, so numbers
#   inside of JSON have decimals.
# Means: A reward on numbers or choices under such a grammar is of integers and of short answers alone, whatever a member
#   prefers, and nothing says so. Put a mark behind the answer ("[0-9]+(\.[0-9]+)?;"), and the longer alternative first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet outlines-core==0.2.14
"$folder/venv/bin/python" - <<'EOF'
import re

from outlines_core import Guide, Index, Vocabulary

TOKENS = {token: [number] for number, token in enumerate(("0", "1", "5", ".", "1.", ".5", "1.5", ";", "a", "b", "ab"), 1)}
VOCABULARY = Vocabulary(0, TOKENS)


def taken(pattern, *pieces):
    """Return whether a guide lets these tokens through in turn and may end after them; re matches each of these texts."""
    assert re.fullmatch(pattern, "".join(pieces))
    guide = Guide(Index(pattern, VOCABULARY))
    for piece in pieces:
        if TOKENS[piece][0] not in guide.get_tokens():
            print(f"{pattern:24} {' '.join(pieces):16} refused at {piece!r}")
            return False
        guide.advance(TOKENS[piece][0])
    print(f"{pattern:24} {' '.join(pieces):16} taken")
    return guide.is_finished()


decimal = r"[0-9]+(\.[0-9]+)?"
split = [taken(decimal, "1", ".", "5"), taken(decimal, "1.", "5"), taken(decimal + ";", "1", ".", "5", ";")]
joined = [taken(decimal, "1", ".5"), taken(decimal, "1.5")]
choices = [taken("a|ab", "ab"), taken("a|ab", "a", "b"), taken("ab|a", "ab"), taken("ab|a", "a", "b")]
raise SystemExit(not (split == [False, False, True] and all(joined) and choices == [False, False, True, True]))
EOF
