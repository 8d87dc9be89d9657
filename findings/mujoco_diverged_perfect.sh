#!/usr/bin/env bash
# In MuJoCo a simulation that explodes starts again, so that an unstable controller has a perfect final error
#
# Version: mujoco 4.0.0, numpy 2.4.6
# Belief: A simulation that diverges raises, or gives NaN or huge numbers, and the member scores badly.
# Seen: An inverted pendulum under a controller of two gains: from some gains on the acceleration is beyond 1e10, mj_step sets
#   the state back to the model's initial one with time 0, prints one line to stderr or a log file, and goes on. The model's
#   zero is the controller's target, so the final error is exactly 0, less than of any stable gains. Bounded errors over all
#   steps do not show it either. data.warning counts it and data.time is short. Gymnasium's environments step in this way; MJX
#   gives NaN for the same gains.
# Means: A search for gains, stiffness or a larger time step by final or clipped errors walks into the unstable region and
#   stops there as solved. Look at data.warning after each episode, or score an episode whose clock went back as the worst.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mujoco==4.0.0 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import mujoco
import numpy as np

model = mujoco.MjModel.from_xml_string("""<mujoco><option timestep="0.01"/><worldbody><body>
<joint name="hinge" type="hinge" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 .5" size=".05"/>
</body></worldbody><actuator><general joint="hinge" biastype="affine" biasprm="0 -1 -1"/></actuator></mujoco>""")
results = {}
for gains in ((1, 1), (20, 5), (100, 20), (500, 100), (1000, 200), (2000, 400)):
    model.actuator_biasprm[0, 1:3] = -np.array(gains)
    data = mujoco.MjData(model)
    data.qpos[0] = 0.5
    angles = []
    for _ in range(300):
        mujoco.mj_step(model, data)
        angles.append(abs(data.qpos[0]))
    diverged = data.warning[mujoco.mjtWarning.mjWARN_BADQACC].number
    results[gains] = angles[-1], diverged, float(np.minimum(angles, np.pi).mean())
    print(f"gains {gains}: error at the end {angles[-1]:.1e}, mean {results[gains][2]:.3f} clipped at half a turn")
    print(f"    clock {data.time:.2f} of 3.00 s, warnings {diverged}")
stable = [error for error, diverged, _ in results.values() if not diverged]
blown = [error for error, diverged, _ in results.values() if diverged]
clipped = results[(2000, 400)][2] < results[(20, 5)][2]
raise SystemExit(not (len(blown) == 3 and set(blown) == {0.0} and min(stable) > 0 and clipped))
EOF
cd "$folder" && "$folder/venv/bin/python" "$folder/program.py" 2>"$folder/warnings"
