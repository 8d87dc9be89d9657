#!/usr/bin/env bash
# With a NaN among the losses orbax deletes the best checkpoint and keeps the diverged one
#
# Version: orbax-checkpoint 0.12.8, jax 0.10.2
# Belief: `CheckpointManager(max_to_keep=2, best_fn=...)` keeps the two best steps, and a NaN is not among them.
# Seen: Steps are sorted by the number, and a NaN is neither smaller nor larger. Of the losses 3, 1, 2, NaN, minimised,
#   `best_step()` is the step of NaN; of 3, NaN, 1, 2, maximised, the step with 3 is deleted and the best one is 2. Of NaN, 3,
#   1, 2, minimised, it is right. Which steps are left depends on the order.
# Means: A run that diverged once in a while loses its best weights for good, and is evaluated by broken ones. Give `best_fn`
#   a number for NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 orbax-checkpoint==0.12.8
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import logging
import tempfile

import jax.numpy as jnp
import orbax.checkpoint as ocp

logging.disable(logging.CRITICAL)
nan, seen = float("nan"), {}
for mode, values in (("min", (3.0, 1.0, 2.0, nan)), ("max", (3.0, nan, 1.0, 2.0)), ("min", (nan, 3.0, 1.0, 2.0))):
    options = ocp.CheckpointManagerOptions(max_to_keep=2, best_fn=lambda metrics: metrics["loss"], best_mode=mode)
    with tempfile.TemporaryDirectory() as folder, ocp.CheckpointManager(folder, options=options) as manager:
        for step, value in enumerate(values):
            manager.save(step, args=ocp.args.StandardSave({"w": jnp.ones(1)}), metrics={"loss": value})
        manager.wait_until_finished()
        seen[mode, values] = values[manager.best_step()], [values[step] for step in manager.all_steps()]
    print(mode, "of", values, "best and kept:", *seen[mode, values])
first, second, third = seen.values()
raise SystemExit(first[0] == first[0] or second[0] != 2.0 or 3.0 in second[1] or third[0] != 1.0)
EOF
