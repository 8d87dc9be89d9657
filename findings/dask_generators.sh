#!/usr/bin/env bash
# Six Dask tasks with one generator draw six numbers, one or some, by the scheduler
#
# Version: dask 2026.8.0, distributed 2026.8.0, numpy 2.4.6
# Belief: A delayed evaluation gives the same value however it is computed, and each time.
# Seen: With threads, or in this process, six tasks that are given one generator have six numbers, the caller's generator moves, and one
#   delayed value that is computed twice is two numbers. With processes, or `client.map` on a cluster, all six have the same number. With a
#   generator that is scattered once, each worker has its own copy, so the number of draws depends on who computes what.
# Means: A search that was tried with threads has no noise between members on a cluster. Give each task a seed of its own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet dask==2026.8.0 distributed==2026.8.0 numpy==2.4.6
cat >"$folder/program.py" <<'PROGRAM'
import dask
import numpy as np
from distributed import LocalCluster, Client


def draw(generator, index):
    return float(generator.random())


if __name__ == "__main__":
    holds = True
    for scheduler, expected in (("synchronous", 6), ("threads", 6), ("processes", 1)):
        generator = np.random.default_rng(0)
        tasks = [dask.delayed(draw)(generator, index) for index in range(6)]
        count = len(set(dask.compute(*tasks, scheduler=scheduler)))
        moved = generator.random() != np.random.default_rng(0).random()
        one = dask.delayed(draw)(np.random.default_rng(0), 0)
        twice = one.compute(scheduler=scheduler) == one.compute(scheduler=scheduler)
        print(f"{scheduler}: {count} draws of six tasks, the caller's generator moved: {moved}, a value computed twice is the same: {twice}")
        holds &= count == expected and moved == (expected == 6) and twice == (expected == 1)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        generator = np.random.default_rng(0)
        mapped = len(set(client.gather(client.map(draw, [generator] * 6, range(6)))))
        shared = client.scatter(generator)
        scattered = len(set(client.gather([client.submit(draw, shared, index, pure=False) for index in range(6)])))
    print(f"cluster: {mapped} draws by map, {scattered} by a scattered generator")
    raise SystemExit(not (holds and mapped == 1 and scattered > 1))
PROGRAM
cd "$folder"
"$folder/venv/bin/python" -W ignore program.py 2>&1 | grep -v WARNING
