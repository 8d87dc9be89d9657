#!/usr/bin/env bash
# A particle swarm of EvoX that is loaded from its state has other positions than were saved
#
# Version: evox 1.4.0, torch 2.14.1, numpy 2.4.6
# Belief: `load_state_dict` of a workflow, with all keys matched, puts a search where it was.
# Seen: CMA-ES, OpenES, DE, CSO and XNES are where they were. In a fresh PSO and CLPSO positions, personal bests and the global best share
#   memory, so what is loaded last is in all of them: each particle stands on its personal best, and the first one on the global best,
#   whose place is also its personal best, with another fitness. After an `init_step` before the load the wrong ones are the positions and
#   their fitnesses.
# Means: A resumed swarm is another search, with velocities that belong to other places, and says nothing. Compare the state after a load
#   with what was loaded, or pickle the workflow.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/pip" install --quiet --no-deps evox==1.4.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
from evox.algorithms import CLPSO, CMAES, CSO, DE, PSO, XNES, OpenES
from evox.core import Problem
from evox.workflows import StdWorkflow


class Sphere(Problem):
    """Squared distance to 0.3."""

    def evaluate(self, points):
        return ((points - 0.3) ** 2).sum(-1)


low, high, ones = -torch.ones(5), torch.ones(5), torch.ones(5)
kinds = {
    "PSO": lambda: PSO(8, low, high),
    "CLPSO": lambda: CLPSO(8, low, high),
    "CSO": lambda: CSO(8, low, high),
    "DE": lambda: DE(8, low, high),
    "CMAES": lambda: CMAES(ones, 1.0, 8),
    "XNES": lambda: XNES(ones, torch.eye(5), 8),
    "OpenES": lambda: OpenES(8, ones, 0.1, 0.3, optimizer="adam"),
}


wrong = {}
for name, make in kinds.items():
    torch.manual_seed(0)
    workflow = StdWorkflow(make(), Sphere())
    workflow.init_step()
    for _ in range(5):
        workflow.step()
    saved = {key: value.clone() for key, value in workflow.state_dict().items()}
    for begun in (False, True):
        torch.manual_seed(7)
        fresh = StdWorkflow(make(), Sphere())
        if begun:
            fresh.init_step()
        matched = fresh.load_state_dict(saved)
        loaded = fresh.state_dict()
        wrong[name, begun] = sorted(key.removeprefix("algorithm.") for key in saved if not torch.equal(saved[key], loaded[key]))
        if name == "PSO" and not begun:
            bests = torch.equal(loaded["algorithm.pop"][1:], saved["algorithm.local_best_location"][1:])
            first = torch.equal(loaded["algorithm.local_best_location"][0], saved["algorithm.global_best_location"])
    print(f"{name}: other than saved {wrong[name, False] or 'nothing'}, after init_step {wrong[name, True] or 'nothing'}; {matched}")
print("particles stand on their personal bests:", bests, "- the first one's is the global best:", first)
holds = all(not names for (name, _), names in wrong.items() if name not in ("PSO", "CLPSO")) and bests and first
holds &= wrong["PSO", False] == ["local_best_location", "pop"] and wrong["PSO", True] == ["fit", "pop"] and "pop" in wrong["CLPSO", False]
raise SystemExit(not holds)
PROGRAM
