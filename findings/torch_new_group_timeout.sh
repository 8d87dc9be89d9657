#!/usr/bin/env bash
# A new group waits half an hour where the job's time-out is five seconds, and a group that timed out is lost for good
#
# Version: torch 2.14.1
# Belief: init_process_group(timeout=...) says how long any collective of the job waits for a lost rank. After a time-out one
#   goes on when the rank is back.
# Seen: new_group() takes the library's 30 minutes, not the job's time-out: a sum of the new group waits 9 seconds for a peer
#   that sleeps, where the job has 4. The default group raises after 4 seconds, on the peer too, and every later collective
#   of it fails although both ranks live; the new group still works.
# Means: Ensembles and searches that divide ranks into groups wait half an hour for a dead rank. Give each new_group the
#   time-out, and make a world anew after one instead of trying again.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as processes


def waits(group):
    return group._get_backend(torch.device("cpu")).options._timeout.total_seconds()


def tried(group=None):
    try:
        total = torch.ones(1)
        dist.all_reduce(total, group=group)
        return total.item()
    except RuntimeError as error:
        return type(error).__name__


def rank(number, meet, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=number, world_size=2, timeout=timedelta(seconds=4))
    new = dist.new_group([0, 1])
    options = waits(dist.group.WORLD), waits(new)
    dist.barrier()
    time.sleep(9 * number)  # the peer is late
    late = tried(new)
    dist.barrier()
    time.sleep(9 * number)
    outcomes = [late, tried(), tried(), tried(new)]
    if number == 0:
        results.put((options, outcomes))
        results.close()
        results.join_thread()
    time.sleep(1)


if __name__ == "__main__":
    results = processes.get_context("spawn").Queue()
    processes.spawn(rank, (sys.argv[1] + "/meet", results), nprocs=2)
    options, (late, default, again, new) = results.get()
    print(f"seconds that a collective waits: {options[0]:g} in the default group, {options[1]:g} in a new one")
    print(f"peer 9 s late: new group {late}, default group {default}; both there again: default {again}, new {new}")
    raise SystemExit(not (options == (4, 1800) and [late, new] == [2, 2] and default == again == "RuntimeError"))
EOF
GLOO_SOCKET_IFNAME=lo timeout 300 "$folder/venv/bin/python" -W ignore "$folder/program.py" "$folder"
