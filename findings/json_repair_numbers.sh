#!/usr/bin/env bash
# A thousand written with a space is one for json_repair, and of two answers it takes the last
#
# Version: json_repair 0.64.6
# Belief: Where an answer is no valid JSON, what is repaired has the value that was written, or nothing.
# Seen: `{"a": 1 000}` is 1, `{"a": 3 apples}` is 3 and `{"a": 50%}` is 50, while `1,000` and `1/2` are texts. Of `Either {"a": 1} or {"a": 2}` the
#   result is the second one alone. Nothing is said.
# Means: A reward by value pays an answer that says a thousand where one is right, and an answer that names both choices. Repair only to see
#   whether the form is wrong, and score the text that parses by itself.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet json_repair==0.64.6
"$folder/venv/bin/python" - <<'EOF'
import json_repair

wanted = {
    '{"a": 1 000}': 1, '{"a": 3 apples}': 3, '{"a": 50%}': 50, '{"a": 1,000}': "1,000", '{"a": 1/2}': "1/2",
    'Either {"a": 1} or {"a": 2}': 2,
}
seen = {}
for text in wanted:
    seen[text] = json_repair.loads(text)["a"]
    print(f"{text:30s} {seen[text]!r}")
raise SystemExit(seen != wanted)
EOF
