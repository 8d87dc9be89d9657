#!/usr/bin/env bash
# NaN fits every JSON schema's minimum and maximum in two libraries of three, and 0.3 is no multiple of 0.1 in one
#
# Version: jsonschema 4.26.0, fastjsonschema 2.22.3, jsonschema-rs 0.61.2
# Belief: A validator refuses an answer outside of the range, and all validators agree on one schema.
# Seen: `{"p": NaN}`, which Python's json reads, fits `minimum: 0, maximum: 1` in jsonschema and fastjsonschema; jsonschema-rs refuses it. Infinity is
#   refused by all. Of six multiples of 0.1 and 0.01 jsonschema refuses five for their rounding, the other two none.
# Means: An answer of NaN has full marks for its form, then poisons the mean of the rewards; and two programs with one schema train
#   on other rewards. Read answers with `parse_constant` that raises, and test decimals by rounding.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jsonschema==4.26.0 fastjsonschema==2.22.3 jsonschema-rs==0.61.2
"$folder/venv/bin/python" -W ignore - <<'EOF'
import json

import fastjsonschema
import jsonschema
import jsonschema_rs

CHECKS = {
    "jsonschema": lambda value, schema: jsonschema.validate(value, schema),
    "fastjsonschema": lambda value, schema: fastjsonschema.compile(schema)(value),
    "jsonschema-rs": lambda value, schema: jsonschema_rs.validate(schema, value),
}


def accepted(value, schema):
    answers = []
    for check in CHECKS.values():
        try:
            check(value, schema)
            answers.append(True)
        except Exception:
            answers.append(False)
    return answers


share = {"type": "object", "properties": {"p": {"type": "number", "minimum": 0, "maximum": 1}}, "required": ["p"]}
print("accepted by", *CHECKS)
nan, infinity = (accepted(json.loads(text), share) for text in ('{"p": NaN}', '{"p": Infinity}'))
print("NaN", nan, "infinity", infinity)
pairs = [(0.1, 0.3), (0.1, 0.7), (0.1, 1.1), (0.01, 0.29), (0.01, 4.35), (0.01, 19.99)]
multiples = [accepted(value, {"multipleOf": step}) for step, value in pairs]
counts = [sum(column) for column in zip(*multiples, strict=True)]
print(f"multiples accepted of {len(pairs)}: {counts}")
raise SystemExit(not (nan == [True, True, False] and infinity == [False] * 3 and counts == [1, 6, 6]))
EOF
