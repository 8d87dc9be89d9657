#!/usr/bin/env bash
# In nengo one connection more, of weight 0, gives every ensemble of a network with a seed other neurons
#
# Version: nengo 4.1.0, numpy 2.4.6
# Belief: A network's seed fixes its neurons; what is added later, and carries nothing, leaves the others as they are.
# Seen: A node, a probe or an ensemble more, if added last, changes no bit of the others. One connection more with a weight of 0 changes
#   gains and biases of all ensembles, and the same input of 0.5 is decoded as another number: seeds are handed out by kind of object,
#   connections first. `sim.reset(seed=7)` is kept: a later `reset()` is that of seed 7.
# Means: An evolved structure with one connection more is compared on other neurons. Give each ensemble and each connection a seed of its
#   own, and each reset its seed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet nengo==4.1.0 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import nengo
import numpy as np


def run(more=None, own_seeds=False):
    """Gains of the first ensemble and the mean decoded value of the second."""
    seeds = [11, 12, 13, 14] if own_seeds else [None] * 4
    with nengo.Network(seed=1) as model:
        source = nengo.Node(0.5)
        first, second = nengo.Ensemble(30, 1, seed=seeds[0]), nengo.Ensemble(30, 1, seed=seeds[1])
        nengo.Connection(source, first, seed=seeds[2])
        nengo.Connection(first, second, seed=seeds[3])
        probe = nengo.Probe(second, synapse=0.01)
        if more == "node":
            nengo.Node(0.1)
        if more == "probe":
            nengo.Probe(first)
        if more == "ensemble":
            nengo.Ensemble(5, 1)
        if more == "connection of weight 0":
            nengo.Connection(source, second, transform=0)
    with nengo.Simulator(model, progress_bar=False) as simulator:
        simulator.run(0.3, progress_bar=False)
        return simulator.data[first].gain, float(simulator.data[probe][-100:].mean())


plain, own = run(), run(own_seeds=True)
same = {}
for more in (None, "node", "probe", "ensemble", "connection of weight 0"):
    gains, value = run(more)
    same[more] = np.array_equal(gains, plain[0])
    print(f"{more} more: neurons the same {same[more]}, decoded {value:.4f} beside {plain[1]:.4f}")
kept = np.array_equal(run("connection of weight 0", own_seeds=True)[0], own[0])
print("with seeds of their own the same:", kept)
with nengo.Network(seed=1) as model:
    probe = nengo.Probe(nengo.Node(nengo.processes.WhiteNoise()))
noise = []
with nengo.Simulator(model, progress_bar=False) as simulator:
    for reset in (None, {}, {"seed": 7}, {}):
        if reset is not None:
            simulator.reset(**reset)
        simulator.run(0.01, progress_bar=False)
        noise.append(simulator.data[probe].copy())
first, again, seven, later = noise
print("a reset after reset(seed=7) is that of seed 7:", np.array_equal(seven, later))
holds = list(same.values()) == [True, True, True, True, False] and kept
raise SystemExit(not (holds and np.array_equal(first, again) and np.array_equal(seven, later) and not np.array_equal(first, seven)))
PROGRAM
