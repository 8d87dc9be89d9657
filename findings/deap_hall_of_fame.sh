#!/usr/bin/env bash
# DEAP's hall of fame keeps the fitness that a member had first
#
# Version: deap 1.4.4
# Belief: HallOfFame holds the best members with the best fitness that was seen of each.
# Seen: A member equal to one inside is not looked at again: with fitness 1 first and 3 later the record says 1. With a full
#   hall and a noisy fitness a lucky first value stays for ever, and a better one never enters.
# Means: Elites are scored again in every generation, so the record of a noisy run is one of first impressions. Keep your
#   own table of means.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet deap==1.4.4
"$folder/venv/bin/python" -W ignore - <<'EOF'
from deap import base, creator, tools

creator.create("Fitness", base.Fitness, weights=(1.0,))
creator.create("Member", list, fitness=creator.Fitness)


def member(genes, fitness):
    one = creator.Member(genes)
    one.fitness.values = (fitness,)
    return one


hall = tools.HallOfFame(2)
hall.update([member([1, 2], 1.0)])
hall.update([member([1, 2], 3.0), member([0, 0], 2.0)])
record = [(list(one), one.fitness.values[0]) for one in hall]
print(f"the member [1, 2] was told with 1 and then 3, [0, 0] with 2; the hall: {record}")
raise SystemExit(record != [([0, 0], 2.0), ([1, 2], 1.0)])
EOF
