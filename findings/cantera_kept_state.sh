#!/usr/bin/env bash
# In Cantera a reactor whose gas is set again goes on from the old member, and two reactors in one network are other numbers
#
# Version: cantera 3.2.0, numpy 2.4.6
# Belief: Setting the gas and the network's time begins the next member; reactors without a connection do not see each other.
# Seen: After an ignition a gas that is set to 1001 K again, with `initial_time = 0`, burns on at 2883 K instead of 1110, with no warning;
#   with `syncState()` and `reinitialize()` it is the first run to the bit. A reactor at 1001 K ends 2e-2 K off during its ignition where
#   another, unconnected one is in the same network, as they share steps; alone it repeats to the bit.
# Means: Members that use one reactor are scored on the flame of the one before, and a batch in one network is not each member alone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet cantera==3.2.0 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import cantera as ct


def new(temperature=1001):
    gas = ct.Solution("h2o2.yaml")
    gas.TPX = temperature, ct.one_atm, "H2:2,O2:1,N2:4"
    return gas, ct.IdealGasReactor(gas)


def run(network, reactor, end=3.1e-4):
    network.advance(end)
    return reactor.T


results = {}
for how in ("fresh", "fresh again", "set again", "synchronised"):
    gas, reactor = new()
    network = ct.ReactorNet([reactor])
    results[how] = run(network, reactor)
    if how in ("set again", "synchronised"):
        gas.TPX = 1001, ct.one_atm, "H2:2,O2:1,N2:4"
        network.initial_time = 0.0
        if how == "synchronised":
            reactor.syncState()
            network.reinitialize()
        results[how] = run(network, reactor)
first, second = new()[1], new(1101)[1]
results["beside another"] = run(ct.ReactorNet([first, second]), first)
for how, temperature in results.items():
    print(f"{how}: {temperature!r} K")
right = results["fresh"]
holds = right == results["fresh again"] == results["synchronised"] and results["set again"] > right + 500
raise SystemExit(not (holds and 1e-3 < abs(results["beside another"] - right) < 1))
PROGRAM
