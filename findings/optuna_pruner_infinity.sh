#!/usr/bin/env bash
# After one trial with an infinite value Optuna's median pruner lets hopeless trials run
#
# Version: optuna 5.0.0, numpy 2.4.6
# Belief: A trial that is worse than the median of the others is pruned, also where one of them diverged.
# Seen: After trials of 1, 2 and 3, and of 1, 2 and 1e30, a trial of 50 is pruned. After 1, 2 and infinity it is not, nor after 1, 2, 3
#   and two infinite ones, though the medians are 2 and 3: numpy's percentile is NaN there, which prunes nobody. A
#   `PercentilePruner` of 75 % behaves so with one infinite trial of five. A NaN of an earlier trial is left out.
# Means: A search in which some trials diverge, where a pruner helps most, prunes nobody from then on. Report infinity as a large number.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet optuna==5.0.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import math

import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)


def pruned(pruner, earlier, value=50.0):
    study = optuna.create_study(pruner=pruner)
    for each in earlier:
        trial = study.ask()
        trial.report(each, 0)
        study.tell(trial, each if math.isfinite(each) else 1e30)
    trial = study.ask()
    trial.report(value, 0)
    return trial.should_prune()


inf, nan = math.inf, math.nan
cases = [(1.0, 2.0, 3.0), (1.0, 2.0, 1e30), (1.0, 2.0, nan), (1.0, 2.0, inf), (1.0, 2.0, 3.0, inf, inf)]
median = {case: pruned(optuna.pruners.MedianPruner(n_startup_trials=1), case) for case in cases}
for case, answer in median.items():
    print("after", case, "a trial of 50 is pruned by the median:", answer)
fours = (1.0, 2.0, 3.0, 4.0)
quarter = [pruned(optuna.pruners.PercentilePruner(75.0, n_startup_trials=1), (*fours, last)) for last in (5.0, inf)]
print("by the percentile of 75 % after 1, 2, 3, 4 and 5, and infinity for 5:", quarter)
raise SystemExit(list(median.values()) != [True] * 3 + [False] * 2 or quarter != [True, False])
EOF
