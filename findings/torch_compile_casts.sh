#!/usr/bin/env bash
# A compiled function does not round to half precision where eager does
#
# Version: torch 2.14.1, numpy 2.4.6
# Belief: `x.to(torch.bfloat16).to(torch.float32)` rounds, compiled or not.
# Seen: Inductor leaves the pair of casts out: of 1,000 float32 numbers eager changes all, the compiled function none, for
#   bfloat16 and for float16; 1e30 is infinite by float16 in eager and stays 1e30. Casts to both kinds of float8 are done.
#   With `emulate_precision_casts` of inductor's options they all are.
# Means: A network that is scored as if it were saved in half precision is scored in float32 once it is compiled, and one that
#   overflows in float16 has an ordinary fitness. Set the option, or round outside.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6 setuptools==84.2.1
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch

torch.set_num_threads(1)
numbers, large = torch.randn(1000, generator=torch.Generator().manual_seed(0)), torch.full((3,), 1e30)
seen = {}
for kind in (torch.bfloat16, torch.float16, torch.float8_e5m2):

    def rounded(x):
        return (x * 1.0).to(kind).to(x.dtype) * 1.0

    torch._dynamo.reset()
    compiled = torch.compile(rounded)
    seen[kind] = [(int((one(numbers) != numbers).sum()), bool(one(large).isinf().all())) for one in (rounded, compiled)]
    torch._dynamo.reset()
    emulated = torch.compile(rounded, options={"emulate_precision_casts": True})
    seen[kind].append((int((emulated(numbers) != numbers).sum()), bool(emulated(large).isinf().all())))
    print(kind, "numbers changed and whether 1e30 is infinite: eager, compiled, with the option", seen[kind])
raise SystemExit(
    any(seen[kind][1] != (0, False) or seen[kind][0][0] < 980 for kind in (torch.bfloat16, torch.float16))
    or any(seen[kind][0] != seen[kind][2] for kind in seen)
    or seen[torch.float8_e5m2][0] != seen[torch.float8_e5m2][1]
)
EOF
