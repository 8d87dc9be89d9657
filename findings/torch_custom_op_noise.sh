#!/usr/bin/env bash
# Under torch.compile two draws of a custom operation are one where gradients are taken
#
# Version: torch 2.14.1, numpy 2.4.6
# Belief: A function that is called twice is called twice in a compiled network too, and what draws noise draws twice.
# Seen: A `custom_op` without `mutates_args` is taken for pure. Eager runs three calls. Compiled, with the backends
#   `aot_eager` and inductor, a call with an unused result does not happen; and with an input that requires a gradient two
#   calls with equal arguments are one call, so both noises are the same. With `tags=(torch.Tag.nondeterministic_seeded,)` the
#   two are two.
# Means: The two directions of a noisy evaluation are one direction as soon as something is trained beside, and evaluations
#   under no_grad do not show it. Tag the operation.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch

calls = 0


def operation(name, **tags):
    @torch.library.custom_op(name, mutates_args=(), **tags)
    def noise(x: torch.Tensor) -> torch.Tensor:
        global calls
        calls += 1
        return torch.randn(x.shape)

    noise.register_fake(lambda x: torch.empty_like(x))
    noise.register_autograd(lambda context, gradient: gradient)
    return noise


seen = {}
for tagged, noise in ((False, operation("es::noise")), (True, operation("es::tagged", tags=(torch.Tag.nondeterministic_seeded,)))):

    def pair(x):
        noise(x)
        return x + noise(x), x + noise(x)

    for backend in ("eager", "aot_eager"):
        for gradient in (False, True):
            torch._dynamo.reset()
            calls = 0
            one, other = torch.compile(pair, backend=backend)(torch.zeros(4, requires_grad=gradient))
            seen[tagged, backend, gradient] = calls, bool((one == other).all())
for key, value in seen.items():
    print("tagged, backend, gradient:", *key, "calls and whether both noises are one:", *value)
raise SystemExit(
    [seen[False, "eager", g] for g in (False, True)] != [(3, False)] * 2
    or [seen[False, "aot_eager", g] for g in (False, True)] != [(2, False), (1, True)]
    or [seen[True, "aot_eager", g] for g in (False, True)] != [(2, False)] * 2
)
EOF
