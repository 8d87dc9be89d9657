#!/usr/bin/env bash
# The BBOB functions of evosax are not all COCO's, and `x_opt` is not always the optimum
#
# Version: evosax 0.3.2, jax 0.10.2 (CPU); ioh 0.4.2, whose functions have COCO's values
# Belief: `BBOBProblem` is COCO's bbob suite in jax. Its `x_opt` is the place of the minimum `f_opt`, so that the distance to
#   either tells how far a run came.
# Seen: With COCO's own optimum put in, four of the five functions without rotations have COCO's values. Bueche-Rastrigin has
#   other values, 0.2 to 9 times COCO's: it stretches the second, fourth, ... coordinate where COCO stretches the first, third, .... At
#   `x_opt` six functions lie above their minimum: linear slope, rotated Rosenbrock, Griewank-Rosenbrock, Schwefel, Lunacek, and
#   Gallagher's 21 peaks. Values come with `f_opt` added in float32, so COCO's last target, 1e-8, is seen as 0 or not at all.
# Means: Results on evosax's functions are not rows of a COCO table. A distance to `x_opt` or a gap of 1e-8 is no stopping rule
#   there; take `f_opt` off in float64, and call Bueche-Rastrigin another function.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet evosax==0.3.2 jax==0.10.2 jaxlib==0.10.2 ioh==0.4.2
JAX_PLATFORMS=cpu "$folder/venv/bin/python" - <<'EOF'
import evosax.problems.bbob.bbob_fns as functions
import ioh
import jax
import jax.numpy as jnp
import numpy as np

rng, size = np.random.default_rng(1), 5
eye = jnp.eye(size)
differ = []
for number, name in enumerate(["sphere", "ellipsoidal", "rastrigin", "bueche_rastrigin", "linear_slope"], 1):
    coco = ioh.get_problem(number, 1, size, ioh.ProblemClass.BBOB)
    best = jnp.asarray(coco.optimum.x)
    ratios = []
    for _ in range(3):
        point = rng.uniform(-5, 5, size)
        value, penalty = getattr(functions, name)(jnp.asarray(point), best, eye, eye, size)
        ratios.append(float(value + penalty) / (coco(list(point)) - coco.optimum.y))
    print(f"{name}: evosax / COCO = {np.round(ratios, 3)}")
    if not np.allclose(ratios, 1, rtol=1e-3):
        differ.append(name)

best = jnp.asarray(rng.uniform(-4, 4, size), dtype=jnp.float32)
turns = [jnp.asarray(np.linalg.qr(rng.normal(size=(size, size)))[0], dtype=jnp.float32) for _ in range(2)]
above = [name for name, f in functions.bbob_fns.items() if float(jax.jit(f, static_argnums=4)(best, best, *turns, size)[0]) > 1e-4]
print("above their minimum at x_opt:", above)

optimum = jnp.float32(700.0)
following = float(jnp.nextafter(optimum, jnp.float32(800))) - 700
print("700 + 1e-8 in float32 is 700 +", float(optimum + jnp.float32(1e-8)) - 700, "; the next number is 700 +", following)
raise SystemExit(not (differ == ["bueche_rastrigin"] and len(above) == 6))
EOF
