#!/usr/bin/env bash
# With oneDNN limited to older instructions, torch's int8 products are wrong in nearly every number
#
# Version: torch 2.14.1, numpy 2.4.6; a processor with VNNI (seen on an Intel Xeon, family 6, model 207)
# Belief: Integer products are exact, so they have the same bits by any instructions; ONEDNN_MAX_CPU_ISA changes speed alone.
# Seen: With ONEDNN_MAX_CPU_ISA=AVX512_CORE or AVX2 sums of two products are cut off at 16 bits by torch._int_mm, which torchao's
#   dynamically quantised layers call: of 512 random int8 inputs nearly all outcomes are wrong, by up to their own size.
#   Numbers up to 64 are right. torch looks at the processor, which has VNNI, and oneDNN at the variable.
# Means: The limit that makes float products of unlike nodes agree ruins a quantised network with no word. Compare one
#   product of the largest numbers with integers before a run.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'PROGRAM'
import torch

a, b = (torch.randint(-128, 128, size, dtype=torch.int8, generator=torch.Generator().manual_seed(0)) for size in ((64, 512), (512, 512)))
wrong = {}
for largest in (128, 64):
    x, y = a.clamp(-largest, largest - 1), b.clamp(-largest, largest - 1)
    wrong[largest] = int((torch._int_mm(x, y).long() != x.long() @ y.long()).sum())
print(*wrong.values())
PROGRAM
if ! grep -qwE "avx512_vnni|avx_vnni" /proc/cpuinfo; then
    echo "cannot tell here: this processor has no VNNI"
    exit 3
fi
for limit in DEFAULT AVX512_CORE_VNNI AVX512_CORE AVX2; do
    ONEDNN_MAX_CPU_ISA=$limit "$folder/venv/bin/python" -W ignore "$folder/program.py" >"$folder/$limit"
    echo "$limit: wrong of 32,768 with numbers up to 128 and up to 64: $(cat "$folder/$limit")"
done
[ "$(cat "$folder/DEFAULT")" = "0 0" ] && [ "$(cat "$folder/AVX512_CORE_VNNI")" = "0 0" ]
for limit in AVX512_CORE AVX2; do
    read -r large small <"$folder/$limit"
    [ "$large" -gt 30000 ] && [ "$small" = 0 ]
done
