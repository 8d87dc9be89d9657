#!/usr/bin/env bash
# A Minari data set has the last observation in all rows, where an environment returns one array, and seeds that nobody gave
#
# Version: minari 0.5.4, gymnasium 1.4.0, h5py 3.16.0, jax 0.10.2, numpy 2.4.6
# Belief: `DataCollector` records what was played, and changes nothing of the play.
# Seen: An environment that returns its own array, changed in place, is recorded with observations of 5, 5, 5, 5, 5, 5 where 0 to 5 were
#   seen; rewards are right. Of actions of one array that the policy writes again all are the last one. And `reset()` without a seed
#   gives the environment a random one: after `reset(seed=7)` the second episode is another one in each process, where it is always the
#   same without the collector.
# Means: Behaviour cloning on such a data set learns from one state, with no word, and a run that was seeded cannot be recorded
#   again. Return and pass copies, and give each reset a seed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "minari[create,hdf5]==0.5.4" gymnasium==1.4.0 jax==0.10.2 numpy==2.4.6 h5py==3.16.0 pillow==13.0.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import os
import tempfile

os.environ["MINARI_DATASETS_PATH"] = tempfile.mkdtemp(dir=os.getcwd())
import gymnasium
import numpy as np
from minari import DataCollector


class Counter(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-100, 100, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self):
        self.place = np.zeros(1, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place[:] = 0
        return self.place, {}

    def step(self, action):
        self.place += 1
        return self.place, float(self.place[0]), bool(self.place[0] >= 5), False, {}


collector, action = DataCollector(Counter()), np.zeros(1, np.float32)
collector.reset(seed=0)
for step in range(5):
    action[:] = step / 10
    collector.step(action)
names = {"algorithm_name": "none", "code_permalink": "none", "author": "none", "author_email": "none"}
episode = collector.create_dataset(dataset_id="counter/test-v0", **names)[0]
print("observations", episode.observations.ravel(), "actions", episode.actions.ravel(), "rewards", episode.rewards)


def second_start(wrap):
    environment = wrap(gymnasium.make("CartPole-v1"))
    environment.reset(seed=7)
    return environment.reset()[0]


plain = [second_start(lambda environment: environment) for _ in range(2)]
collected = [second_start(DataCollector) for _ in range(2)]
print("starts of second episodes after seed 7: plain", *plain, "collected", *collected)
same = episode.observations.ravel().tolist() == [5.0] * 6 and np.allclose(episode.actions, 0.4)
raise SystemExit(not same or episode.rewards.tolist() != [1, 2, 3, 4, 5] or np.array_equal(*collected) or not np.array_equal(*plain))
EOF
