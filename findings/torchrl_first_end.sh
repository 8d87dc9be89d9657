#!/usr/bin/env bash
# A torchrl rollout of several environments ends all episodes with the first one
#
# Version: torchrl 0.14.1, tensordict 0.14.3, gymnasium 1.4.0, torch 2.14.1
# Belief: rollout(max_steps=500) of 8 environments plays 8 episodes of up to 500 steps, and set_seed(0) gives them seeds 0 to
#   7 as gymnasium's vectors do.
# Seen: It stops when any of them ends (break_when_any_done=True), so a random policy on CartPole has a mean return of 23 with
#   one environment, of 13 with 8 and of 10 with 32. With False episodes are joined to max_steps, several in a row. Seeds
#   after the first are drawn from it and are none of gymnasium's.
# Means: Returns fall with the number of environments, and a policy that lives longer gains nothing where one copy falls: a
#   fitness of the worst start. Use break_when_all_done=True and mask what follows the first end.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchrl==0.14.1 tensordict==0.14.3 gymnasium==1.4.0 torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import gymnasium
import torch
from torchrl.envs import GymEnv, SerialEnv

returns = {}
for count in (1, 8, 32):
    env = SerialEnv(count, lambda: GymEnv("CartPole-v1"))
    env.set_seed(0)
    torch.manual_seed(0)
    sums = torch.cat([env.rollout(500)["next", "reward"].sum(1).flatten() for _ in range(64 // count)])
    returns[count] = float(sums.mean())
    print(f"{count} environments: mean return {returns[count]:.1f} of {len(sums)} episodes of a random policy")
env = SerialEnv(2, lambda: GymEnv("CartPole-v1"))
env.set_seed(0)
starts = env.reset()["observation"]
known = [torch.as_tensor(gymnasium.make("CartPole-v1").reset(seed=seed)[0]) for seed in (0, 1)]
matches = [bool((start == one).all()) for start in starts for one in known]
print("starts of set_seed(0) that are gymnasium's of seeds 0 or 1:", sum(matches))
raise SystemExit(not (returns[1] > 1.6 * returns[8] and returns[8] > returns[32] and not matches[3]))
EOF
"$folder/venv/bin/python" -W ignore "$folder/program.py"
