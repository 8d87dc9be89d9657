#!/usr/bin/env bash
# A Ray actor that is restarted draws its noise again, a retried task counts twice, and a generator is one state for all tasks
#
# Version: ray 2.60.0, numpy 2.4.6
# Belief: With `max_restarts` and `max_retries` a worker that is lost changes when a result comes, and not the result.
# Seen: A restarted actor runs its constructor again: its counter begins at 1 and its generator gives the first numbers once more, with no word to
#   who calls it. A task that has told another actor before its worker was lost tells it again. A numpy generator that is handed to four
#   tasks, or put once, gives each of them the same number, and the caller's does not go on.
# Means: Members of later generations have the noise of the first, and sums over members count one twice. Make noise from a number
#   that is handed to the call (seed, generation, member), and let results be returned, not told.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ray==2.60.0 numpy==2.4.6
cd "$folder"
cat >program.py <<'PROGRAM'
import os
import time

import numpy as np
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")


@ray.remote(max_restarts=1, max_task_retries=1)
class Noise:
    def __init__(self):
        self.generator, self.calls = np.random.default_rng(0), 0

    def draw(self):
        self.calls += 1
        return self.calls, round(float(self.generator.standard_normal()), 4)

    def process(self):
        return os.getpid()


@ray.remote
class Tally:
    def __init__(self):
        self.total = 0

    def add(self, number):
        self.total += number
        return self.total


@ray.remote(max_retries=1)
def told(tally, marker):
    ray.get(tally.add.remote(1))
    if not os.path.exists(marker):
        open(marker, "w").close()
        os._exit(1)  # as a preempted worker ends
    return 1


@ray.remote
def drawn(generator):
    return round(float(generator.standard_normal()), 4)


actor = Noise.remote()
before = [ray.get(actor.draw.remote()) for _ in range(3)]
os.kill(ray.get(actor.process.remote()), 9)
after = []
while len(after) < 3:
    try:
        after.append(ray.get(actor.draw.remote()))
    except ray.exceptions.ActorUnavailableError:
        time.sleep(0.2)
print("draws of an actor:", before, "and after its process was killed:", after)
tally = Tally.remote()
answer = ray.get(told.remote(tally, os.path.abspath("marker")))
total = ray.get(tally.add.remote(0))
print("a task that was retried returns", answer, "and was counted", total, "times")
generator = np.random.default_rng(0)
handed = ray.get([drawn.remote(generator) for _ in range(4)])
stored = ray.put(generator)
put = ray.get([drawn.remote(stored) for _ in range(4)])
own = round(float(generator.standard_normal()), 4)
print("a generator in four tasks:", handed, "put once:", put, "the caller's next:", own)
ray.shutdown()
raise SystemExit(not (before == after and answer == 1 and total == 2 and set(handed + put) == {own}))
PROGRAM
RAY_AUTH_MODE=disabled "$folder/venv/bin/python" -W ignore program.py 2>/dev/null
