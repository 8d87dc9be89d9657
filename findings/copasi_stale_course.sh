#!/usr/bin/env bash
# A member that COPASI cannot simulate has the time course of the member before, or ends early with a plausible number
#
# Version: copasi-basico 0.92, numpy 2.4.6, pandas 2.3.3
# Belief: A time course that fails raises, or is empty.
# Seen: With `adaptivesa` a start of 1e30 particles, which is too many for it, returns the complete table of the member that was simulated
#   before, to the bit; with `directMethod` the table is empty. With `sde` and its default settings a decay of 100 over 10 s comes
#   back as two rows, the last at 1 s (90.5, where 36.8 is right). A rate of NaN is one of 0 in `directMethod` and `adaptivesa`, so
#   that 100 particles stay. All that is said is a logged line.
# Means: A failed member has its neighbour's fitness, so that the best one is copied. Compare the last time of each table with the duration,
#   and the first row with the start.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet copasi-basico==0.92 numpy==2.4.6 pandas==2.3.3
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import logging

import basico

logging.disable(logging.CRITICAL)
NAN = float("nan")


def course(rate, particles, method):
    basico.set_species("A", initial_particle_number=particles)
    basico.set_reaction_parameters("(R1).k1", value=rate)
    try:
        table = basico.run_time_course(duration=10, intervals=5, method=method, use_seed=True, seed=1)
        return [float(value) for value in table.A.to_numpy()], float(table.index[-1])
    except IndexError as error:  # the table is empty
        return repr(error)


seen = {}
for method in ("deterministic", "directMethod", "adaptivesa", "sde"):
    model = basico.new_model(name="decay", quantity_unit="1", volume_unit="1")
    basico.add_reaction("R1", "A -> B")
    for rate, particles in ((0.1, 100), (NAN, 100), (0.2, 100), (0.1, 1e30)):
        seen[method, rate if rate == rate else "NaN", particles] = found = course(rate, particles, method)
        print(f"{method}, rate {rate}, {particles} particles: {found}")
    basico.remove_datamodel(model)
before, stale = seen["adaptivesa", 0.2, 100], seen["adaptivesa", 0.1, 1e30]
holds = before == stale and stale[1] == 10 and "IndexError" in seen["directMethod", 0.1, 1e30]
stay = all(set(seen[method, "NaN", 100][0]) == {100.0} for method in ("directMethod", "adaptivesa"))
early = seen["sde", 0.1, 100]
raise SystemExit(not (holds and stay and len(early[0]) == 2 and early[1] < 1.01 and early[0][1] > 80 and seen["deterministic", 0.1, 100][0][-1] < 37))
PROGRAM
