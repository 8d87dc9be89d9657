#!/usr/bin/env bash
# The same policy in two versions of MuJoCo: other returns after a hundred steps, another length of life
#
# Version: mujoco 3.2.7 and 4.0.0, gymnasium 1.4.0, numpy 2.4.6
# Belief: A release of the physics changes the last digits: the return of one policy from one seed agrees to four digits or
#   so.
# Seen: After one step HalfCheetah agrees to the 15th digit, after 50 to the third, and after 1000 the return of a linear
#   policy is -1226 in one and -1686 in the other; an Ant lives 25 steps or 13. Where the motion is not chaotic (Swimmer) 14
#   digits stay.
# Means: A return is a figure of one version of the physics: keep the version with the result, compare methods in one version,
#   and measure a saved policy again in the version that will use it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/program.py" <<'EOF'
import gymnasium
import numpy as np

for name in ("HalfCheetah-v5", "Ant-v5", "Swimmer-v5"):
    env = gymnasium.make(name)
    observation, _ = env.reset(seed=1)
    space, total, over = env.action_space, 0.0, False
    policy = np.random.default_rng(0).standard_normal((space.shape[0], observation.size)) * 0.1
    returns = []
    while not over:
        observation, reward, terminated, truncated, _ = env.step(np.clip(policy @ observation, space.low, space.high))
        total, over = total + float(reward), terminated or truncated
        returns.append(total)
    print(name, len(returns), returns[0], total)
EOF
for version in 3.2.7 4.0.0; do
    python3 -m venv "$folder/venv-$version"
    "$folder/venv-$version/bin/pip" install --quiet mujoco==$version gymnasium==1.4.0 imageio==2.38.1 packaging==26.4 numpy==2.4.6
    echo "mujoco $version: environment, steps, return after one step, return at the end"
    "$folder/venv-$version/bin/python" "$folder/program.py" 2>/dev/null | tee "$folder/$version"
done
python3 - "$folder/3.2.7" "$folder/4.0.0" <<'EOF'
import sys

(old, new) = ({line.split()[0]: [float(x) for x in line.split()[1:]] for line in open(path)} for path in sys.argv[1:])
apart = {name: abs(old[name][2] / new[name][2] - 1) for name in old}
first = abs(old["HalfCheetah-v5"][1] / new["HalfCheetah-v5"][1] - 1)
cheetah, ant, swimmer = apart.values()
raise SystemExit(not (first < 1e-9 and cheetah > 0.05 and ant > 0.05 and swimmer < 1e-9))
EOF
