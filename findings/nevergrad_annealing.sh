#!/usr/bin/env bash
# nevergrad's searches by simulated annealing recommend their start, and their cooling changes nothing
#
# Version: nevergrad 1.0.12, numpy 2.4.6
# Belief: `recommend()` is at least as good as the point that a search began with, and Exp09, Exp099, Lin1 and Lin100 cool at other rates.
# Seen: On a sphere that is 14.25 at the start, all nine optimizers whose name begins with SA recommend the start after 200 and after 1,000
#   evaluations, whose best was 0.7 to 6, with each of three seeds, and of 20 switches, all off at the start, they recommend all off where 16 on
#   was their best. The six with Lengler in their name evaluate the same points of the sphere, to the last bit, whatever their cooling is, and so
#   do the other three. DiscreteOnePlusOne itself recommends its best point.
# Means: A comparison by `minimize()` or `recommend()` has them at the start's loss. Ask for the best of the points that were told, and take the
#   family for one algorithm.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet nevergrad==1.0.12 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import nevergrad as ng
import numpy as np

BEST = np.array([1.0, -2.0, 3.0, 0.5])


def search(name, seed, budget):
    parameters = ng.p.Array(shape=(4,))
    parameters.random_state.seed(seed)
    optimizer, points = ng.optimizers.registry[name](parameters, budget=budget), []
    for _ in range(budget):
        candidate = optimizer.ask()
        points.append(candidate.value)
        optimizer.tell(candidate, float(((candidate.value - BEST) ** 2).sum()))
    losses = [float(((point - BEST) ** 2).sum()) for point in points]
    return np.array(points), min(losses), float(((optimizer.recommend().value - BEST) ** 2).sum())


names, holds = sorted(name for name in ng.optimizers.registry if name.startswith("SA")), True
for budget in (200, 1000):
    runs = {name: [search(name, seed, budget) for seed in ((1, 2, 3) if budget == 200 else (1,))] for name in (*names, "DiscreteOnePlusOne")}
    for name, of_name in runs.items():
        print(f"{name}, {budget}: best {[round(best, 3) for _, best, _ in of_name]}; recommended {[round(value, 3) for *_, value in of_name]}")
        holds &= all(value == best if name == "DiscreteOnePlusOne" else value == 14.25 > best + 1 for _, best, value in of_name)
    for kind in (True, False):
        family = [runs[name][0][0] for name in names if ("Lengler" in name) == kind]
        same = sum(np.array_equal(points, family[0]) for points in family)
        print(f"{'with' if kind else 'without'} Lengler: {same} of {len(family)} evaluate the same points")
        holds &= same == len(family) >= 3
for name in (*names, "DiscreteOnePlusOne"):
    switches = ng.p.TransitionChoice([0, 1], repetitions=20)
    switches.random_state.seed(1)
    optimizer, losses = ng.optimizers.registry[name](switches, budget=300), []
    for _ in range(300):
        candidate = optimizer.ask()
        losses.append(20 - sum(candidate.value))
        optimizer.tell(candidate, losses[-1])
    recommended = 20 - sum(optimizer.recommend().value)
    print(f"{name} on 20 switches: first {losses[0]} off, best {min(losses)}, recommended {recommended}")
    holds &= losses[0] == 20 and (recommended == min(losses) if name == "DiscreteOnePlusOne" else recommended == 20 and min(losses) < 10)
raise SystemExit(not holds)
PROGRAM
