#!/usr/bin/env bash
# `off` in a YAML file is False, and on Hydra's command line it is true
#
# Version: hydra-core 1.3.8, omegaconf 2.3.1
# Belief: key=value on the command line is read as `key: value` in the file.
# Seen: `mirrored: off` in YAML is False. `mirrored=off` (or `no`) on the command line is the text 'off', which `if` takes for true.
#   So are `0x10` (16 in YAML), `012` (10) and `1:30` (90) texts there.
# Means: An ablation that is switched off by `=off` or `=no` runs with the part on, in every job of a sweep, and the table shows no
#   difference. Write `false`, or give the key a type in a structured config, which reads `off` as False.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet hydra-core==1.3.8 omegaconf==2.3.1
cat >"$folder/program.py" <<'EOF'
import hydra


@hydra.main(version_base=None, config_path=".", config_name="config")
def main(config):
    print(repr(config.mirrored), "on" if config.mirrored else "off")


main()
EOF
cd "$folder"
for text in off no false; do
    echo "mirrored: $text" >config.yaml
    file=$(venv/bin/python program.py hydra.run.dir=run)
    line=$(venv/bin/python program.py hydra.run.dir=run "mirrored=$text")
    echo "$text: in YAML $file, on the command line $line" | tee -a out
done
grep -q "^off: in YAML False off, on the command line 'off' on$" out
grep -q "^no: in YAML False off, on the command line 'no' on$" out
grep -q "^false: in YAML False off, on the command line False off$" out
