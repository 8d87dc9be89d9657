#!/usr/bin/env bash
# A generation of one population size is half to three times as many evaluations, by the algorithm, in EvoX and in EvoTorch
#
# Version: evox 1.4.0, evotorch 0.6.1, torch 2.14.1
# Belief: A generation with `pop_size=30` or `popsize=20` is 30 or 20 evaluations, so that curves over generations can be compared.
# Seen: With 30, each step of EvoX's CSO evaluates 15 points, of PSO, DE, JaDE, SHADE and SaDE 30, of ODE 60, of CoDE 90. With 20, EvoTorch's
#   SNES, CEM, XNES and CMAES evaluate 20, its Cosyne 30 after a first 50, or 32 with two elites, and its genetic algorithm 40, half of them
#   parents again, or 20 with `re_evaluate=False`.
# Means: Compare over evaluations: count the rows in the problem's `evaluate`. At equal generations CoDE has six times the budget of CSO.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -c 'import torch' 2>/dev/null || "$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/pip" install --quiet evotorch==0.6.1
"$folder/venv/bin/pip" install --quiet --no-deps evox==1.4.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import evotorch
import torch
from evotorch import algorithms as of_evotorch
from evotorch.operators import GaussianMutation
from evox import algorithms as of_evox
from evox.core import Problem
from evox.workflows import StdWorkflow

torch.set_default_device("cpu")


class Sphere(Problem):
    rows = 0

    def evaluate(self, x):
        self.rows += len(x)
        return (x**2).sum(1)


class Counted(evotorch.Problem):
    def __init__(self):
        super().__init__("min", solution_length=4, initial_bounds=(-1, 1), seed=1)
        self.rows = 0

    def _evaluate_batch(self, batch):
        self.rows += len(batch)
        batch.set_evals((batch.values**2).sum(1))


def steps(problem, step, generations=4):
    counts = []
    for _ in range(generations):
        before = problem.rows
        step()
        counts.append(problem.rows - before)
    return counts


seen = {}
for name in ("CSO", "PSO", "DE", "JaDE", "SHADE", "SaDE", "ODE", "CoDE"):
    problem = Sphere()
    workflow = StdWorkflow(getattr(of_evox, name)(pop_size=30, lb=-torch.ones(4), ub=torch.ones(4)), problem)
    workflow.init_step()
    seen[name] = steps(problem, workflow.step)
for name, kind, options in (("SNES", "SNES", {"stdev_init": 0.5}), ("CEM", "CEM", {"stdev_init": 0.5, "parenthood_ratio": 0.5}),
                            ("XNES", "XNES", {"stdev_init": 0.5}), ("CMAES", "CMAES", {"stdev_init": 0.5}),
                            ("Cosyne", "Cosyne", {"tournament_size": 4, "mutation_stdev": 0.3}),
                            ("Cosyne, two elites", "Cosyne", {"tournament_size": 4, "mutation_stdev": 0.3, "num_elites": 2}),
                            ("genetic", "GeneticAlgorithm", {}), ("genetic, once", "GeneticAlgorithm", {"re_evaluate": False})):
    problem = Counted()
    if kind == "GeneticAlgorithm":
        options["operators"] = [GaussianMutation(problem, stdev=0.1)]
    seen[name] = steps(problem, getattr(of_evotorch, kind)(problem, popsize=20, **options).step)
for name, counts in seen.items():
    print(f"{name}: {counts}")
wanted = {"CSO": 15, "PSO": 30, "DE": 30, "JaDE": 30, "SHADE": 30, "SaDE": 30, "ODE": 60, "CoDE": 90, "SNES": 20, "CEM": 20, "XNES": 20,
          "CMAES": 20, "Cosyne": 30, "Cosyne, two elites": 32, "genetic": 40, "genetic, once": 20}
raise SystemExit(not (all(counts[1:] == [wanted[name]] * 3 for name, counts in seen.items()) and seen["Cosyne"][0] == 50))
PROGRAM
