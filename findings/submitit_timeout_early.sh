#!/usr/bin/env bash
# A job of submitit ends half a minute or more before its time
#
# Version: submitit 1.5.4
# Belief: A job with timeout_min=1 has a minute; then it is ended.
# Seen: A local job is told that it timed out after 30 seconds, and a function that has no checkpoint ends there with an error
#   which says that it ran 0 of 1 minutes. Under SLURM the signal is asked for 90 seconds before the end: a job of 2 minutes
#   has 30 seconds, and one of 1 minute gets it at once.
# Means: Short trials of a sweep fail although their time suffices, the sooner the shorter they are. Ask for two minutes more
#   than a trial needs, or set slurm_signal_delay_s.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet submitit==1.5.4
cd "$folder"
"$folder/venv/bin/python" - <<'EOF'
import re
import tempfile
import time

import submitit
from submitit.core.utils import FailedJobError
from submitit.slurm.slurm import _make_sbatch_string

executor = submitit.AutoExecutor(folder=tempfile.mkdtemp(dir="."), cluster="local")
executor.update_parameters(timeout_min=1)
start = time.monotonic()
try:
    executor.submit(time.sleep, 50).result()
    reason = "none"
except FailedJobError as error:
    reason = re.search("not requeued because: .*", str(error))[0]
seconds = time.monotonic() - start
print(f"a local job of 50 s with timeout_min=1 ended after {seconds:.0f} s: {reason}")
signal = re.search("--signal=.*", _make_sbatch_string("true", "logs", time=2))[0]
print(f"SLURM's script of a job of 2 minutes asks for {signal}")
raise SystemExit(not ("timed-out" in reason and seconds < 45 and signal.endswith("@90")))
EOF
