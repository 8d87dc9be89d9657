#!/usr/bin/env bash
# A time of 1:30:00 in a YAML config is the number 5400, which SLURM reads as 90 hours
#
# Version: omegaconf 2.3.1, hydra-core 1.3.8, PyYAML 6.0.4
# Belief: `time: 1:30:00` in a config is that text, as it is on Hydra's command line, and goes to `sbatch --time` as it stands.
# Seen: In YAML `1:30:00` is 5400 and `12:30` is 750, numbers to the base of 60; `01:30:00` and `0:45:00` stay text. `010` is 8 there.
#   On the command line all are text. `--time=5400` is minutes.
# Means: A job that should end after an hour and a half asks for 90 hours, and waits in the queue or is refused; a config that was printed
#   and one that was typed differ. Put quotes around times.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet omegaconf==2.3.1 hydra-core==1.3.8 PyYAML==6.0.4
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

parser = OverridesParser.create()
seen = {}
for text in ("1:30:00", "12:30", "01:30:00", "0:45:00", "010", "1-12:00:00"):
    seen[text] = OmegaConf.create(f"time: {text}").time, parser.parse_override(f"time={text}").value()
    print(f"{text}: in YAML {seen[text][0]!r}, on the command line {seen[text][1]!r}")
holds = seen["1:30:00"] == (5400, "1:30:00") and seen["12:30"] == (750, "12:30") and seen["01:30:00"] == ("01:30:00",) * 2
raise SystemExit(not (holds and seen["0:45:00"] == ("0:45:00",) * 2 and seen["010"] == (8, "010")))
EOF
