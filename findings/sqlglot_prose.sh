#!/usr/bin/env bash
# Two words of prose are valid SQL for sqlglot
#
# Version: sqlglot 30.30.0
# Belief: parse_one raises for what is no SQL, so a reward for valid SQL is one for statements.
# Seen: `hello world` is an expression with an alias, `select` and `select from t` are queries, `show me` and `call me` are
#   commands. Nine answers that no database runs are parsed without an error, and `I think 5` and `select a from` raise.
#   Letters' case in names makes queries unequal: `select a` is not `SELECT A`.
# Means: A format reward by parsing is earned by two words, which evolution finds before it finds a query. Require that the
#   tree is an exp.Query with expressions and a table, or run it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sqlglot==30.30.0
"$folder/venv/bin/python" -W ignore - <<'EOF'
import logging

import sqlglot

logging.disable(logging.CRITICAL)


def parses(text):
    try:
        return bool(sqlglot.parse_one(text))
    except sqlglot.errors.ParseError:
        return False


PROSE = ["hello", "hello world", "the answer", "select", "select from t", "show me", "call me", "use it", "explain to me"]
valid = [text for text in PROSE if parses(text)]
raised = [text for text in ("I think 5", "select a from") if not parses(text)]
equal = sqlglot.parse_one("select a from t") == sqlglot.parse_one("SELECT A FROM t")
print(f"valid: {valid}\nrefused: {raised}\nselect a equals SELECT A: {equal}")
raise SystemExit(not (valid == PROSE and len(raised) == 2 and not equal))
EOF
