#!/usr/bin/env bash
# A schema's minimum and maximum hold under llguidance, and say nothing to lm-format-enforcer and outlines-core
#
# Version: lm-format-enforcer 0.11.3, outlines-core 0.2.14, llguidance 1.9.1
# Belief: An answer that is constrained by {"type": "number", "minimum": 0, "maximum": 1} is a number from 0 to 1, or the
#   library refuses the schema.
# Seen: lm-format-enforcer and outlines-core take 7 and -3 as for a plain number; llguidance refuses both, and it refuses 1e-7
#   too, since a range makes a grammar without exponents. Keys in another order than the schema's are taken by
#   lm-format-enforcer alone, further keys by llguidance alone.
# Means: A score of 0 to 1 that a model writes under a schema, as a judge or a policy, is not bounded by it: one member's 900
#   decides the generation. Check the range after parsing, and rank.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet lm-format-enforcer==0.11.3 outlines-core==0.2.14 llguidance==1.9.1
"$folder/venv/bin/python" -W ignore - <<'EOF'
import json

from llguidance import LLMatcher, LLTokenizer
from lmformatenforcer import JsonSchemaParser
from outlines_core import Guide, Index, Vocabulary
from outlines_core.json_schema import build_regex_from_schema

CHARACTERS = [chr(code) for code in range(32, 127)]
VOCABULARY = Vocabulary(0, {one: [number] for number, one in enumerate(CHARACTERS, 1)})
TOKENIZER = LLTokenizer("byte")


def enforcer(schema, text):
    parser = JsonSchemaParser(schema)
    for one in text:
        if one not in parser.get_allowed_characters():
            return False
        parser = parser.add_character(one)
    return parser.can_end()


def outlines(schema, text):
    guide = Guide(Index(build_regex_from_schema(json.dumps(schema)), VOCABULARY))
    for one in text:
        if CHARACTERS.index(one) + 1 not in guide.get_tokens():
            return False
        guide.advance(CHARACTERS.index(one) + 1)
    return guide.is_finished()


def guidance(schema, text):
    matcher = LLMatcher(TOKENIZER, LLMatcher.grammar_from_json_schema(json.dumps(schema)))
    tokens = TOKENIZER.tokenize_str(text)
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


score = {"type": "number", "minimum": 0, "maximum": 1}
both = {"type": "object", "properties": {key: {"type": "integer"} for key in "ab"}, "required": ["a", "b"]}
seen = {}
for library in (enforcer, outlines, guidance):
    numbers = {text: library(score, text) for text in ("0", "7", "-3")}
    keys = {text: library(both, text) for text in ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', '{"a": 1, "b": 2, "c": 3}')}
    seen[library.__name__] = [*numbers.values(), *keys.values()]
    print(library.__name__, numbers, keys)
small = guidance(score, "1e-7"), guidance({"type": "number"}, "1e-7")
print("guidance: 1e-7 with and without a range:", small)
wanted = {
    "enforcer": [True, True, True, True, True, False],
    "outlines": [True, True, True, True, False, False],
    "guidance": [True, False, False, True, False, True],
}
raise SystemExit(not (seen == wanted and small == (False, True)))
EOF
