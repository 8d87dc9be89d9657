#!/usr/bin/env bash
# MuJoCo's rollout freezes a diverged member in the state before, where a loop of steps goes on
#
# Version: mujoco 4.0.0, numpy 2.4.6
# Belief: `rollout` gives the states of a loop over `mj_step`, bit by bit, whatever happens, or NaN from a divergence on.
# Seen: It does for eight members of 200 steps. With one control of NaN, or of 1e12, in step 50 all later states of the member are copies of
#   one state, with the time at a quarter of a second to the end; a loop of `mj_step` leaves the control out, or starts again, and
#   its time goes on. Nothing is NaN, and other members are untouched.
# Means: A controller that diverges while it stands has a constant, perfect pose to the end of its episode. Compare the last state's time.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mujoco==4.0.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import mujoco
import numpy as np
from mujoco import rollout

model = mujoco.MjModel.from_xml_string("""
<mujoco><option timestep="0.005"/><worldbody><geom type="plane" size="5 5 .1"/><body pos="0 0 1"><freejoint/>
<geom type="box" size=".1 .2 .05"/><body pos=".2 0 0"><joint name="j" axis="0 1 0"/><geom size=".03" type="capsule" fromto="0 0 0 .3 0 0"/>
</body></body></worldbody><actuator><motor joint="j" gear="3"/></actuator></mujoco>""")
FULL = mujoco.mjtState.mjSTATE_FULLPHYSICS
size, members, steps = mujoco.mj_stateSize(model, FULL), 8, 200
start = np.zeros(size)
mujoco.mj_getState(model, mujoco.MjData(model), start, FULL)


def loop(controls):
    data, states = mujoco.MjData(model), []
    for control in controls:
        data.ctrl[:] = control
        mujoco.mj_step(model, data)
        states.append(np.empty(size))
        mujoco.mj_getState(model, data, states[-1], FULL)
    return np.array(states)


controls = np.random.default_rng(0).normal(size=(members, steps, 1))
plain = rollout.rollout(model, [mujoco.MjData(model)], np.tile(start, (members, 1)), controls)[0]
holds = np.array_equal(plain, [loop(row) for row in controls])
print("eight members as in a loop:", holds)
for value in (np.nan, 1e12):
    controls[3, 50] = value
    states, looped = rollout.rollout(model, [mujoco.MjData(model)], np.tile(start, (members, 1)), controls)[0], loop(controls[3])
    frozen, others = (states[3, 52:] == states[3, 52]).all(), all(np.array_equal(states[i], plain[i]) for i in range(members) if i != 3)
    print(f"control {value}: frozen {frozen}, time at the end {states[3, -1, 0]:.3f}, in a loop {looped[-1, 0]:.3f}; others as before {others}")
    holds &= bool(frozen) and others and states[3, -1, 0] < 0.3 and looped[-1, 0] > 0.5 and np.isfinite(states).all()
raise SystemExit(not holds)
EOF
