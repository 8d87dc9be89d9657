#!/usr/bin/env bash
# With AMX a row of a bfloat16 product has other bits in a batch of 16 than in one of 64, and on two threads
#
# Version: torch 2.14.1, numpy 2.4.6; Intel Xeon with AMX (family 6, model 207)
# Belief: On one machine a row's outcome does not depend on how many rows there are: so it is for bfloat16 on other processors,
#   and for float32 from some size on.
# Seen: By AMX a few numbers of the first rows differ between a batch of 15 to 33 rows and one of 1 to 8 or of 40 and more, from
#   512 inputs on; so do large batches on 1 and 2 threads, and mm and bmm of one matrix. With
#   ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 or AVX512_CORE all have the same bits. Matrices at any address have, with AMX too.
# Means: A member's score depends on how many share its pass, and a generated text on the batch that it was part of. A run is
#   repeated by the same batches and threads on the same processor, or by the limit, in many times the time.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'PROGRAM'
import torch
from torch.nn import functional as F

torch.set_num_threads(1)


def normal(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def moved(x, places):
    return torch.empty(x.numel() + 64, dtype=x.dtype)[places : places + x.numel()].view(x.shape).copy_(x)


found = threads = single = 0
for inputs in (64, 512, 2048):
    weight, x = (normal(512, inputs, seed=1) / inputs**0.5).bfloat16(), normal(256, inputs, seed=2).bfloat16()
    full = F.linear(x, weight)
    sizes = (1, 2, 8, 15, 16, 17, 20, 24, 31, 32, 33, 40, 48, 64, 100, 128)
    differ = {size: int((F.linear(x[:size], weight) != full[:size]).sum()) for size in sizes}
    found += sum(differ.values())
    print(f"{inputs} inputs: numbers unlike those of 256 rows:", {size: count for size, count in differ.items() if count})
    assert all(torch.equal(F.linear(moved(x, place), moved(weight, 33 - place)), full) for place in range(0, 33, 8))
    torch.set_num_threads(2)
    threads += int((F.linear(x, weight) != full).sum())
    torch.set_num_threads(1)
    rows = x[:64]
    single += int((torch.bmm(rows[None], weight.T[None])[0] != F.linear(rows, weight)).sum())
print("numbers that differ by batch, by threads, by bmm:", found, threads, single)
PROGRAM
if ! grep -qw amx_bf16 /proc/cpuinfo; then
    echo "cannot tell here: this processor has no AMX"
    exit 3
fi
for limit in DEFAULT AVX512_CORE_BF16 AVX512_CORE; do
    echo "ONEDNN_MAX_CPU_ISA=$limit"
    ONEDNN_MAX_CPU_ISA=$limit "$folder/venv/bin/python" -W ignore "$folder/program.py" | tee "$folder/$limit"
done
differ() { grep "^numbers that" "$folder/$1" | cut -d: -f2; }
read -r batch threads single <<<"$(differ DEFAULT)"
[ "$batch" -gt 0 ] && [ "$threads" -gt 0 ] && [ "$single" -gt 0 ]
for limit in AVX512_CORE_BF16 AVX512_CORE; do
    [ "$(differ $limit)" = " 0 0 0" ]
done
