#!/usr/bin/env bash
# MLflow's database gives a diverged run a finite loss, and one step's latest value is the larger
#
# Version: mlflow 3.17.2
# Belief: A metric comes back as it was logged, whichever store has it; of two values of one step the last one counts.
# Seen: From SQLite infinity comes back as 1.797e308, which isfinite passes; from files as infinity. NaN comes back from both.
#   Two values of one step within one millisecond, 2.0 and then 1.0, count as 2.0 in both stores; a millisecond apart as 1.0.
# Means: A check for finite losses over a table of runs passes diverged ones in one store and not in the other, and what a
#   resumed generation is worth depends on a clock. Log NaN for any number that is not finite, and one value a step.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mlflow==3.17.2
cat >"$folder/program.py" <<'EOF'
import logging
import math
import sys

import mlflow

logging.disable(logging.WARNING)
seen = {}
for store in (f"file://{sys.argv[1]}/files", f"sqlite:///{sys.argv[1]}/runs.db"):
    client = mlflow.MlflowClient(tracking_uri=store)
    run = client.create_run(client.create_experiment("one")).info.run_id
    client.log_metric(run, "diverged", math.inf, step=1)
    client.log_metric(run, "nan", math.nan, step=1)
    for name, later in (("same_millisecond", 1000), ("next_millisecond", 1001)):
        client.log_metric(run, name, 2.0, step=5, timestamp=1000)
        client.log_metric(run, name, 1.0, step=5, timestamp=later)
    name = store.split(":")[0]
    seen[name] = client.get_run(run).data.metrics
    print(name, seen[name], "finite:", math.isfinite(seen[name]["diverged"]))
finite = [math.isfinite(metrics["diverged"]) for metrics in seen.values()]
latest = [(metrics["same_millisecond"], metrics["next_millisecond"]) for metrics in seen.values()]
nan = all(math.isnan(metrics["nan"]) for metrics in seen.values())
raise SystemExit(not (finite == [False, True] and latest == [(2.0, 1.0)] * 2 and nan))
EOF
cd "$folder" && MLFLOW_ALLOW_FILE_STORE=true "$folder/venv/bin/python" -W ignore "$folder/program.py" "$folder"
