#!/usr/bin/env bash
# Some functions of networkx with a seed give another answer in each process, where nodes are strings
#
# Version: networkx 3.6.1
# Belief: A function with `seed=1` gives one answer for one graph.
# Seen: With nodes named by strings `maximal_independent_set(seed=1)` and `simulated_annealing_tsp(seed=1)` from a greedy cycle differ
#   between processes, as Python's hash seed orders their sets, and so do the sizes of `max_clique` and of `clique_removal`, which draw
#   nothing. With `PYTHONHASHSEED=0`, or integer nodes, each is one answer; louvain, label propagation and double edge swaps are so in any
#   case.
# Means: A structure fitness differs between workers and between runs of one seed. Number the nodes, or set PYTHONHASHSEED for all
#   workers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet networkx==3.6.1 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import os
import subprocess
import sys

CODE = """
import networkx as nx, sys
graph = nx.karate_club_graph()
full = nx.complete_graph(9)
for a, b in full.edges:
    full[a][b]["weight"] = (a * 7 + b * 13) % 11 + 1
if sys.argv[1] == "strings":
    graph, full = (nx.relabel_nodes(g, {i: f"n{i}" for i in g}) for g in (graph, full))
first = list(full)[0]
print(sorted(map(str, nx.maximal_independent_set(graph, seed=1))))
print(nx.approximation.simulated_annealing_tsp(full, "greedy", source=first, max_iterations=2, N_inner=5, seed=1))
print(len(nx.approximation.max_clique(graph)), len(nx.approximation.clique_removal(graph)[1]))
print(sorted(sorted(map(str, group)) for group in nx.community.louvain_communities(graph, seed=1)))
"""


def answers(nodes, hash_seeds):
    """Number of different answers of each function over processes."""
    outputs = [subprocess.run([sys.executable, "-W", "ignore", "-c", CODE, nodes], env={**os.environ, "PYTHONHASHSEED": str(seed)},
                              capture_output=True, text=True, check=True).stdout.splitlines() for seed in hash_seeds]
    return [len(set(column)) for column in zip(*outputs, strict=True)]


strings, fixed, integers = answers("strings", range(6)), answers("strings", [0] * 3), answers("integers", range(6))
print("answers of independent set, tour, cliques, louvain:", strings, "one hash seed:", fixed, "integers:", integers)
raise SystemExit(not (strings[0] > 1 and strings[2] > 1 and strings[3] == 1 and set(fixed) == {1} and integers[0] == integers[2] == 1))
PROGRAM
