#!/usr/bin/env bash
# Tasks that are given one generator draw the same numbers, by chunks that depend on the number of processes or on time
#
# Version: Python 3.11's multiprocessing and concurrent.futures, joblib 1.6.0, numpy 2.4.6
# Belief: 32 evaluations that are given `rng` draw 32 numbers; or, since each has a copy, all the same one.
# Seen: `Pool.map` sends tasks in chunks, and those of one chunk share a copy: 32 tasks have eight draws with one process, four with two and
#   two with four, again and again. `ProcessPoolExecutor.map` has one, with `chunksize=4` four. joblib's short tasks have one in some calls
#   and more in others, by how it made its batches; with `n_jobs=1` there are 16 draws.
# Means: Members share noise by their place, and the run changes with the number of workers. Give each task a seed of its own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet joblib==1.6.0 numpy==2.4.6
cat >"$folder/program.py" <<'PROGRAM'
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Pool

import joblib
import numpy as np


def draw(generator):
    return float(generator.random())


def draw_of_pair(pair):
    return draw(pair[0])


def distinct(run):
    return len(set(run(np.random.default_rng(0))))


def by_pool(processes):
    def run(generator):
        with Pool(processes) as pool:
            return pool.map(draw_of_pair, [(generator, index) for index in range(32)])

    return run


def by_executor(chunk):
    def run(generator):
        with ProcessPoolExecutor(2) as pool:
            return list(pool.map(draw, [generator] * 16, chunksize=chunk))

    return run


def by_joblib(jobs):
    return lambda generator: joblib.Parallel(n_jobs=jobs)(joblib.delayed(draw)(generator) for _ in range(16))


if __name__ == "__main__":
    pools = {count: distinct(by_pool(count)) for count in (1, 2, 4)}
    chunks = {chunk: distinct(by_executor(chunk)) for chunk in (1, 4)}
    print("draws of 32 tasks, Pool.map with 1, 2 and 4 processes:", pools)
    print("draws of 16 tasks, ProcessPoolExecutor.map by chunksize:", chunks)
    one, batches = distinct(by_joblib(1)), [distinct(by_joblib(2)) for _ in range(12)]
    print("draws of 16 tasks, joblib with one job:", one, "| with two jobs, twelve calls:", batches)
    raise SystemExit(not (pools == {1: 8, 2: 4, 4: 2} and chunks == {1: 1, 4: 4} and one == 16 and max(batches) > 1 and max(batches) < 16))
PROGRAM
cd "$folder"
"$folder/venv/bin/python" -W ignore program.py
