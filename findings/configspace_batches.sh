#!/usr/bin/env bash
# ConfigSpace draws another design in a batch, and with one more parameter
#
# Version: ConfigSpace 1.2.2, numpy 2.4.6
# Belief: sample_configuration(3) of a seed is three times sample_configuration(); a parameter that is added has draws of
#   its own.
# Seen: A batch draws parameter by parameter, so from the second configuration on nothing agrees. Parameters are drawn in
#   the order of their names: with a further one called 'a' the values of 'x' become those of 'a', and 'x' gets those of
#   'y'.
# Means: A random search is not repeated by another number of workers, and two searches of one seed that differ by one
#   parameter share no configuration. Store the configurations.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ConfigSpace==1.2.2 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
from ConfigSpace import ConfigurationSpace


def space(*names):
    return ConfigurationSpace({name: (0.0, 1.0) for name in names}, seed=1)


batch = [tuple(dict(each).values()) for each in space("x", "y").sample_configuration(3)]
single = space("x", "y")
single = [tuple(dict(single.sample_configuration()).values()) for _ in range(3)]
agree = [one == other for one, other in zip(batch, single)]
two, three = dict(space("x", "y").sample_configuration()), dict(space("a", "x", "y").sample_configuration())
print(f"batch: {batch}\none by one: {single}\nthe same: {agree}")
print(f"of x and y: {two}; with a: {three}")
raise SystemExit(not (not any(agree[1:]) and three["a"] == two["x"] and three["x"] == two["y"]))
EOF
