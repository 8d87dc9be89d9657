#!/usr/bin/env bash
# A parsl app with a cache fails for ever after one failure, is evaluated once where it draws, and shares its results with functions of the same text
#
# Version: parsl 2026.10.26, `python_app(cache=True)` on threads
# Belief: A cache spares equal evaluations: one that failed is tried again, and another function has other results.
# Seen: An app that raised once raises the stored error in each later call with that argument, though it would succeed. Three calls of
#   a noisy fitness are one number. Two apps that one function made around 2 and around 5 have the first one's results, and a changed
#   global changes nothing. 1, 1.0 and True are three keys; a list is read when it is submitted, so a longer list is another key, and
#   0.0 and -0.0 are two.
# Means: One lost evaluation (a full disk, a simulator that did not start) is that member's result for the rest of the run; repeats of
#   a noisy fitness have a deviation of 0; and settings in a closure are not compared. Give the settings, the repeat and the attempt as
#   arguments.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet parsl==2026.10.26
cd "$folder"
cat >program.py <<'EOF'
import random

import parsl
from parsl import python_app
from parsl.config import Config
from parsl.executors import ThreadPoolExecutor

parsl.load(Config(executors=[ThreadPoolExecutor(max_threads=1)], run_dir="run", usage_tracking=0))
calls, scale = [], 1


@python_app(cache=True)
def once(member):
    calls.append(member)
    if len(calls) == 1:
        raise OSError("lost")
    return len(calls)


@python_app(cache=True)
def noisy(member):
    return random.random()


@python_app(cache=True)
def scaled(member):
    return member * scale


@python_app(cache=True)
def kind(member):
    return type(member).__name__


def make(factor):
    @python_app(cache=True)
    def times(member):
        return member * factor

    return times


outcomes = []
for _ in range(3):
    try:
        outcomes.append(once(1).result())
    except OSError:
        outcomes.append("failed")
draws = {noisy(1).result() for _ in range(3)}
closures = make(2)(3).result(), make(5)(3).result()
before = scaled(2).result()
scale = 5
after = scaled(2).result()
kinds = [kind(member).result() for member in (1, 1.0, True)]
print("outcomes:", outcomes, "calls:", len(calls), "draws:", len(draws), "closures:", closures, "global:", (before, after), kinds)
parsl.clear()
as_seen = outcomes == ["failed"] * 3 and len(calls) == 1 and len(draws) == 1 and closures == (6, 6)
raise SystemExit(not (as_seen and (before, after) == (2, 2) and kinds == ["int", "float", "bool"]))
EOF
"$folder/venv/bin/python" -W ignore program.py
