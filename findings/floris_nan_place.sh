#!/usr/bin/env bash
# One turbine at a coordinate of NaN takes all wakes from a FLORIS wind farm, which then has the best power there is
#
# Version: floris 4.7, numpy 2.4.6
# Belief: A coordinate of NaN gives a power of NaN, as a wind speed, a direction, a yaw angle and a turbulence of NaN do.
# Seen: Six turbines in two rows have 5.2 MW with wind along the rows. With one of them at x = NaN all six have full power, 10.5 MW in each of
#   eight directions, as without any wake and more than any placement. With two of them at one point the farm has 6.8 MW, more than with 600 m
#   between them. Other inputs of NaN make NaN of their own direction alone, and eight directions at once are each one alone, to the bit.
# Means: A search over layouts ends at NaN, or with all turbines on one point. Test coordinates, and set distances as a constraint.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet floris==4.7 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import logging

import numpy as np
from floris import FlorisModel

logging.disable(logging.CRITICAL)
X, Y = [0.0, 600, 1200, 0, 600, 1200], [0.0, 0, 0, 500, 500, 500]
directions = np.array([270.0, 280, 300, 0, 90, 180, 200, 45])


def power(x=X, directions=directions, speed=8.0):
    farm, speeds = FlorisModel("defaults"), np.full(len(directions), 8.0)
    speeds[len(directions) // 4] = speed
    turbulence = np.full(len(directions), 0.06)
    farm.set(layout_x=x, layout_y=Y, wind_directions=directions, wind_speeds=speeds, turbulence_intensities=turbulence)
    farm.run()
    return farm.get_turbine_powers().sum(1) / 1e6


right, lost = power(), power([X[0], np.nan, *X[2:]])
far, near, calm = power([1e5 * x for x in X]), power([0.0, 0.0, *X[2:]]), power(speed=np.nan)
single = np.array([power(directions=directions[i : i + 1])[0] for i in range(8)])
for name, found in (("right", right), ("one at NaN", lost), ("60,000 km apart", far), ("two at one point", near), ("one speed NaN", calm)):
    print(f"{name}: {np.round(found, 2)} MW")
holds = np.isfinite(lost).all() and (lost >= far - 1e-9).all() and (lost > right).all() and np.array_equal(right, single)
raise SystemExit(not (holds and near[0] > right[0] and np.isnan(calm[2]) and np.isfinite(np.delete(calm, 2)).all()))
PROGRAM
