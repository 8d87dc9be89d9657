#!/usr/bin/env bash
# Islands of a pygmo archipelago do not exchange members by default, and are one run if they start alike
#
# Version: pygmo 2.20.0, numpy 2.4.6
# Belief: An archipelago is an island model: islands exchange their best, each with random numbers of its own.
# Seen: Without `t=` the topology is "Unconnected": no migration in five evolutions. Each island has a copy of the algorithm with the state
#   of its generator, so that four islands with equal populations (a restored one, say) have the same champion to the last bit in DE, PSO,
#   CMA-ES and the bee colony, also where no seed was given. With `t=ring()` and every seed given, six runs have six results.
# Means: An "island model" of four is the best of four independent runs; from a checkpoint's population it is one run at four times the cost;
#   and with migration no seed repeats it. Name the topology, give each island an algorithm of its own, and record the migrations.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pygmo==2.20.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import pygmo


def champions(archipelago, times):
    archipelago.evolve(times)
    archipelago.wait_check()
    return tuple(float(value[0]) for value in archipelago.get_champions_f())


problem = pygmo.problem(pygmo.rosenbrock(5))
plain = pygmo.archipelago(n=4, algo=pygmo.algorithm(pygmo.de(gen=5)), prob=problem, pop_size=20)
champions(plain, 5)
print("default topology:", plain.get_topology().get_name(), "- migrations:", len(plain.get_migration_log()))
holds = len(plain.get_migration_log()) == 0
for kind in (pygmo.de, pygmo.pso, pygmo.cmaes, pygmo.bee_colony):
    algorithm, population = pygmo.algorithm(kind(gen=20)), pygmo.population(problem, 20, seed=7)
    islands = pygmo.archipelago()
    for _ in range(4):
        islands.push_back(algo=algorithm, pop=population, udi=pygmo.thread_island())
    different = len(set(champions(islands, 2)))
    print(f"{kind.__name__}: different champions of four islands that start alike: {different}")
    holds &= different == 1
results = {}
for topology in (pygmo.unconnected(), pygmo.ring()):
    results[type(topology).__name__] = {
        champions(pygmo.archipelago(4, t=topology, algo=pygmo.algorithm(pygmo.de(gen=20, seed=1)), prob=problem, pop_size=20, seed=1), 10)
        for _ in range(6)
    }
counts = {name: len(found) for name, found in results.items()}
print("different results of six runs with all seeds given:", counts)
raise SystemExit(not (holds and counts["unconnected"] == 1 and counts["ring"] > 1))
EOF
