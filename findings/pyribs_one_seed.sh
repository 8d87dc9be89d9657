#!/usr/bin/env bash
# Five CMA-ES emitters of pyribs with one seed ask for 36 solutions five times, in every generation
#
# Version: ribs 0.12.0, numpy 2.4.6
# Belief: An experiment's seed may be given to every emitter; they part at the latest with what the archive tells them.
# Seen: Five emitters of one kind and seed ask for the same 36 solutions, 180 evaluations. The strategies (`cma_es`, `sep_cma_es`,
#   `openai_es`) are told the same of each copy, so they ask for equal solutions for ever: 36 different ones of 180 in each of 20
#   generations. GaussianEmitter, which draws around the archive's elites, parts after the first generation.
# Means: A run that counts evaluations is five times slower than it could be, and a comparison of one emitter with five is one of one with
#   one. Give emitters the children of a SeedSequence, as the seeds 1, 2, 3 of one experiment meet those of the next.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ribs==0.12.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
from ribs.archives import GridArchive
from ribs.emitters import EvolutionStrategyEmitter, GaussianEmitter
from ribs.schedulers import Scheduler

different = {}
for name in ("cma_es", "sep_cma_es", "openai_es", "gaussian"):
    archive = GridArchive(solution_dim=10, dims=[20, 20], ranges=[(-1, 1)] * 2)
    given = {"x0": np.zeros(10), "batch_size": 36, "seed": 1}
    if name == "gaussian":
        emitters = [GaussianEmitter(archive, sigma=0.5, **given) for _ in range(5)]
    else:
        more = {"es_kwargs": {"lr": 0.01}} if name == "openai_es" else {}
        emitters = [EvolutionStrategyEmitter(archive, sigma0=0.5, es=name, **more, **given) for _ in range(5)]
    scheduler, different[name] = Scheduler(archive, emitters), []
    for _ in range(20):
        solutions = scheduler.ask()
        different[name].append(len(np.unique(solutions, axis=0)))
        scheduler.tell(-(solutions**2).sum(1), solutions[:, :2])
    print(f"{name}: different solutions of {len(solutions)} in generations 1, 2 and 20:", [different[name][at] for at in (0, 1, 19)])
same = all(set(different[name]) == {36} for name in ("cma_es", "sep_cma_es", "openai_es"))
raise SystemExit(not (same and different["gaussian"][0] == 36 < 160 < different["gaussian"][1]))
EOF
