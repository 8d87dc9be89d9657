#!/usr/bin/env bash
# In SimPy a time-out of NaN puts other events in a wrong order, and the mean wait falls to a tenth
#
# Version: simpy 4.1.2
# Belief: A time that is no time is refused, as one below 0 is ("Negative delay"), or at least shows in the result.
# Seen: Of processes that wait 2, NaN, 3 and 1 that of 2 ends before that of 1, and the clock runs backwards. Where one of 50 customers of
#   a queue has a service time of NaN, the mean wait is 0.31 in place of 3.26, 49 are served, and the clock ends at 100 as ever.
#   `run(until=nan)` returns before the first event, with the clock at NaN.
# Means: A member whose network gives NaN once has the shortest queue of all. Test times in the process, before `timeout`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet simpy==4.1.2
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import random

import simpy

NAN = float("nan")


def order(times):
    environment, ended = simpy.Environment(), []

    def wait(time):
        yield environment.timeout(time)
        ended.append((time, environment.now))

    for time in times:
        environment.process(wait(time))
    environment.run()
    return ended


def queue(diverged):
    generator, environment, waits = random.Random(1), simpy.Environment(), []
    server = simpy.Resource(environment, 1)

    def customer(number):
        start = environment.now
        with server.request() as turn:
            yield turn
            waits.append(environment.now - start)
            service = generator.expovariate(1.2)
            yield environment.timeout(NAN if number == diverged else service)

    def arrivals():
        for number in range(50):
            yield environment.timeout(generator.expovariate(1))
            environment.process(customer(number))

    environment.process(arrivals())
    environment.run(until=100)
    return len(waits), sum(waits) / len(waits), environment.now


right, wrong = order([5, 3, 4, 1, 2]), order([2, NAN, 3, 1])
print("without NaN:", right)
print("with one:", wrong)
sound, diverged = queue(None), queue(10)
print("served, mean wait, clock:", sound, diverged)
try:
    order([5, -1])
    refused = False
except ValueError as error:
    refused = print("below 0:", error) is None
environment = simpy.Environment()
environment.timeout(1)
environment.run(until=NAN)
print("run(until=nan): clock", environment.now)
clock = [now for time, now in wrong if time == time]
holds = right == sorted(right) and clock != sorted(clock) and refused and sound[0] == 50
raise SystemExit(not (holds and diverged[1] < sound[1] / 5 and diverged[2] == 100 and environment.now != environment.now))
PROGRAM
