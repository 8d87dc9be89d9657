#!/usr/bin/env bash
# PyGAD's best_solution() evaluates again, and under noise names another fitness each time
#
# Version: pygad 3.9.2, numpy 2.4.6
# Belief: best_solution() looks up the best of what was evaluated, as best_solutions_fitness has it.
# Seen: Three generations of four solutions make 13 calls of the fitness. Each best_solution() afterwards calls it for
#   members of the last population again, without saying so, and returns the best of these new numbers.
# Means: Evaluations are more than were budgeted, and a noisy fitness is reported by its luckiest draw, another one in every
#   report. Read best_solutions_fitness, or evaluate the centre on fresh episodes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pygad==3.9.2 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import pygad

calls = 0


def fitness(run, solution, index):
    global calls
    calls += 1
    return float(calls)  # a noisy fitness whose luck grows


run = pygad.GA(
    num_generations=3, sol_per_pop=4, num_parents_mating=2, num_genes=2, fitness_func=fitness, random_seed=1, suppress_warnings=True
)
run.run()
trained = calls
reports = [(run.best_solution()[1], calls) for _ in range(3)]
print(f"calls in training: {trained}; best fitness by best_solution() and calls so far: {reports}")
raise SystemExit(not (reports[0][1] > trained and len({value for value, _ in reports}) == 3))
EOF
