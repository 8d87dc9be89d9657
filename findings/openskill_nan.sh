#!/usr/bin/env bash
# In openskill a player with a score of NaN wins by its place, and Plackett-Luce cuts ranks to integers
#
# Version: openskill 6.2.0
# Belief: A score of NaN is refused or last, and ranks of 1, 1.5, 1.2 and 3 are four different ranks.
# Seen: In all five models the one with NaN is the winner as the first of four, and takes its place in the row where it stands later: scores
#   of [NaN, 3, 2, 1] rate as [4, 3, 2, 1] do. Four of NaN are four winners in order. As ranks [1, NaN, 3, 4] are first to fourth too, but
#   an error in Plackett-Luce. That default model of many examples takes ranks of 1, 1.5, 1.2 and 3 as a tie of three; the four others do not.
# Means: In self-play a network that diverged beats all, by its place in the list. Give ranks that were made from finite scores, as integers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openskill==6.2.0
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
from openskill.models import BradleyTerryFull, BradleyTerryPart, PlackettLuce, ThurstoneMostellerFull, ThurstoneMostellerPart

NAN, holds = float("nan"), True
for kind in (PlackettLuce, BradleyTerryFull, BradleyTerryPart, ThurstoneMostellerFull, ThurstoneMostellerPart):
    model = kind()

    def rated(**outcome):
        try:
            return [round(team[0].mu, 3) for team in model.rate([[model.rating()] for _ in range(4)], **outcome)]
        except ValueError as error:
            return repr(error)

    right = rated(scores=[4, 3, 2, 1])
    diverged = [rated(scores=scores) for scores in ([NAN, 3, 2, 1], [4, 3, NAN, 1], [NAN] * 4)]
    ranked, parts = rated(ranks=[1, NAN, 3, 4]), rated(ranks=[1.0, 1.5, 1.2, 3])
    print(kind.__name__, "right", right, "with NaN", diverged, "ranks", ranked, "1, 1.5, 1.2, 3", parts)
    holds &= all(found == right for found in diverged) and right == sorted(right, reverse=True)
    if kind is PlackettLuce:
        holds &= parts[0] == parts[1] == parts[2] and "ValueError" in ranked
    else:
        holds &= ranked == right and len(set(parts)) == 4
raise SystemExit(not holds)
PROGRAM
