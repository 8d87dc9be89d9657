#!/usr/bin/env bash
# A diverged behaviour is the most novel one, by faiss
#
# Version: faiss-cpu 1.15.1, numpy 2.4.6
# Belief: A query with NaN has distances of NaN, or is refused.
# Seen: `IndexFlatL2.search` and `knn` of a behaviour with NaN, infinity or 1e20 give four neighbours with number -1 and
#   squared distances of 3.4e38, and no error: a mean distance of 1.8e19, where others have 0.2. With fewer points in the
#   archive than neighbours every behaviour has some of them. As an index, -1 is the last behaviour. A vector with NaN in the
#   archive is found by nobody, and counted in `ntotal`.
# Means: In a novelty search by faiss the member that diverged wins each generation, and all members tie while the archive is
#   small. Drop neighbours of -1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet faiss-cpu==1.15.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import faiss
import numpy as np

archive = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
index, novelty = faiss.IndexFlatL2(2), {}
index.add(archive)
for bad in (0.0, np.nan, np.inf, 1e20):
    members = archive[:5].copy()
    members[3, 0] = bad
    squares, places = index.search(members, 4)
    novelty[str(bad)] = np.sqrt(squares).mean(1)
    print("behaviour of the fourth member", bad, "novelties", novelty[str(bad)], "its neighbours", places[3])
small = faiss.IndexFlatL2(2)
small.add(archive[:3])
few = np.sqrt(small.search(archive[:5], 4)[0]).mean(1)
print("an archive of three:", few)
lost = faiss.IndexFlatL2(2)
lost.add(np.concatenate([archive, [[np.nan, 0]]]).astype(np.float32))
found = (lost.search(archive, 50)[1] == 200).any()
print("a vector with NaN is found:", found, "of", lost.ntotal)
winners = [int(values.argmax()) for name, values in novelty.items() if name != "0.0"]
huge = all(values[3] > 1e19 and np.delete(values, 3).max() < 1 for name, values in novelty.items() if name != "0.0")
raise SystemExit(winners != [3] * 3 or not huge or novelty["0.0"].max() > 5 or few.min() < 1e18 or found or lost.ntotal != 201)
EOF
