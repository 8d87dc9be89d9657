#!/usr/bin/env bash
# `_recursive_: false` without a `_target_` is obeyed by Hydra 1.4 and not by 1.3
#
# Version: hydra-core 1.3.8 with omegaconf 2.3.1, hydra-core 1.4.0rc3 with omegaconf 2.4.1rc1
# Belief: `_recursive_: false` leaves the targets below a node alone in every version, whether the node has a `_target_` or not.
# Seen: Under a node with a target both versions leave them. In a plain dict, 1.3 instantiates the target below all the same,
#   where 1.4 leaves its config.
# Means: A tree of factories that are to be called once for each member (environments, networks) is objects under 1.3, one for all
#   members, and configs under 1.4. Give the node a target, or mark each factory with `_partial_: true`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/program.py" <<'EOF'
from hydra.utils import instantiate

below = {"_target_": "fractions.Fraction", "numerator": 1}
plain = instantiate({"_recursive_": False, "part": below})
target = instantiate({"_target_": "builtins.dict", "_recursive_": False, "part": below})
print("plain dict:", type(plain["part"]).__name__, "; under a target:", type(target["part"]).__name__)
EOF
for pair in "1.3.8 2.3.1" "1.4.0rc3 2.4.1rc1"; do
    read -r hydra omegaconf <<<"$pair"
    python3 -m venv "$folder/$hydra"
    "$folder/$hydra/bin/pip" install --quiet "hydra-core==$hydra" "omegaconf==$omegaconf"
    echo "$hydra $("$folder/$hydra/bin/python" -W ignore "$folder/program.py")" | tee -a "$folder/out"
done
grep -q "^1.3.8 plain dict: Fraction ; under a target: DictConfig$" "$folder/out"
grep -q "^1.4.0rc3 plain dict: DictConfig ; under a target: DictConfig$" "$folder/out"
