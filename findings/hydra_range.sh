#!/usr/bin/env bash
# A decimal range of a sweep has one value too many
#
# Version: hydra-core 1.3.8, omegaconf 2.3.1
# Belief: range(start, stop, step) leaves out its stop, as Python's does.
# Seen: Values are added up: range(0.1,0.4,0.1) has four of them, 0.4 among them and 0.30000000000000004 as a name;
#   range(1,2,0.1) has ten and no 2.
# Means: A grid over sigma or the learning rate has more jobs than its author counts, and folders whose names no one types.
#   Write choice(0.1,0.2,0.3).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet hydra-core==1.3.8 omegaconf==2.3.1
"$folder/venv/bin/python" - <<'EOF'
from hydra.core.override_parser.overrides_parser import OverridesParser

values = {}
for text in ("range(0.1,0.4,0.1)", "range(1,2,0.1)"):
    values[text] = list(OverridesParser.create().parse_override(f"sigma={text}").sweep_string_iterator())
    print(text, len(values[text]), values[text])
three, ten = values.values()
raise SystemExit(three != ["0.1", "0.2", "0.30000000000000004", "0.4"] or len(ten) != 10)
EOF
