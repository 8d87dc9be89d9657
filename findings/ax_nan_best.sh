#!/usr/bin/env bash
# Ax takes a NaN for a complete trial, and then cannot name the best one; an infinity it takes like any number
#
# Version: ax-platform 1.3.1, botorch 0.18.1, torch 2.14.1
# Belief: A trial whose loss is NaN is refused or counted as failed, and the search goes on with the others. The first trial
#   is a draw of the Sobol sequence.
# Seen: complete_trial stores the NaN, and the trial is COMPLETED. get_best_parameterization then fails by an assertion
#   ("Unexpected None"), although other trials are finite; an infinity does no such harm. The first trial is the middle of the
#   space (the geometric one on a log scale) for every seed.
# Means: One diverged member of a sweep over sigma and rate takes the answer away at its end. Tell such a trial by
#   mark_trial_failed, and leave the first trial out where searches of several seeds are compared.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ax-platform==1.3.1 botorch==0.18.1 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import logging

from ax.api.client import Client
from ax.api.configs import RangeParameterConfig

logging.disable(50)


def searched(bad, seed=0):
    """Return the first trial, the states of four trials of which the third has the loss ``bad``, and the best one's x."""
    client = Client(random_seed=seed)
    ranges = [("lr", (1e-4, 1.0), "log"), ("x", (-5.0, 5.0), None)]
    client.configure_experiment(
        parameters=[RangeParameterConfig(name=name, bounds=ends, parameter_type="float", scaling=kind) for name, ends, kind in ranges]
    )
    client.configure_optimization(objective="-loss")
    points = []
    for number in range(4):
        for index, point in client.get_next_trials(max_trials=1).items():
            points.append(point)
            if bad == "failed" and number == 2:
                client.mark_trial_failed(trial_index=index)
            else:
                client.complete_trial(trial_index=index, raw_data={"loss": bad if number == 2 else (point["x"] - 1) ** 2})
    states = client.summarize()["trial_status"].tolist()
    try:
        best = client.get_best_parameterization(use_model_predictions=False)[0]["x"]
    except AssertionError as error:
        best = f"AssertionError: {error}"
    return points[0], states, best


found = {str(bad): searched(bad) for bad in (1e9, float("inf"), float("nan"), "failed")}
for bad, (first, states, best) in found.items():
    print(f"third loss {bad}: first trial {first}, {states}, best x {best}")
other = searched(1e9, seed=1)[0]
middle = abs(other["lr"] - 0.01) < 1e-9 and other["x"] == 0 and other == found["nan"][0]
bests = {bad: each[2] for bad, each in found.items()}
fine = all(bests[bad] == bests["1000000000.0"] == 0 for bad in ("inf", "failed"))
raise SystemExit(not (middle and fine and str(bests["nan"]).startswith("AssertionError") and set(found["nan"][1]) == {"COMPLETED"}))
EOF
