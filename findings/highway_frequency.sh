#!/usr/bin/env bash
# An episode of 40 seconds in highway-env is 27 seconds long at ten decisions a second, and 32 at four
#
# Version: highway-env 1.12.1, gymnasium 1.4.0, numpy 2.4.6
# Belief: `policy_frequency` sets how often a policy decides; the simulated time of an episode is `duration`, in seconds.
# Seen: A decision lasts `simulation_frequency // policy_frequency` frames, 15 // 4 = 3 of 1/15 s, and is counted as 1/4 s. A car at 25 m/s drives
#   1,000 m in an episode at 1, 5 or 15 decisions, 800 m at 4 and 667 m at 10; in the fast variant with 5 frames 600 m at 3. The return of
#   the same drive is the sum over decisions, so it is 15 times as large at 15 as at 1.
# Means: Returns, crashes an episode and times to a goal of two frequencies are of other roads. Take a divisor of the simulation's frequency, and
#   divide the return by the number of decisions.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet highway-env==1.12.1 gymnasium==1.4.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import gymnasium
import highway_env  # noqa: F401

SECONDS, IDLE = 40, 1


def drive(frames, decisions):
    """Metres, return and counted seconds of a car that keeps its speed of 25 m/s on an empty road."""
    config = {"simulation_frequency": frames, "policy_frequency": decisions, "duration": SECONDS, "vehicles_count": 0}
    env = gymnasium.make("highway-v0", config=config)
    env.reset(seed=1)
    car, total, ended = env.unwrapped.vehicle, 0.0, False
    start = car.position[0]
    while not ended:
        _, reward, terminated, truncated, _ = env.step(IDLE)
        total, ended = total + reward, terminated or truncated
    return float(car.position[0] - start), total, env.unwrapped.time


metres = {}
for frames, decisions in ((15, 1), (15, 4), (15, 5), (15, 10), (15, 15), (5, 1), (5, 3)):
    metres[frames, decisions], total, counted = drive(frames, decisions)
    print(f"{frames} frames and {decisions} decisions a second: {metres[frames, decisions]:.0f} m, "
          f"{metres[frames, decisions] / 25:.1f} s of {counted:.1f} counted, return {total:.1f}")
seen = {key: round(value) for key, value in metres.items()}
raise SystemExit(seen != {(15, 1): 1000, (15, 4): 800, (15, 5): 1000, (15, 10): 667, (15, 15): 1000, (5, 1): 1000, (5, 3): 600})
PROGRAM
