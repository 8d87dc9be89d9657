#!/usr/bin/env bash
# The jobs of a Hydra sweep run in one process, so that what a job draws and caches depends on its place in the sweep
#
# Version: hydra-core 1.3.8 with its own launcher, numpy 2.4.6
# Belief: `-m sigma=1,2,3` is three runs of the program.
# Seen: The module is imported once. A generator that is made, or a seed that is set, where the module is imported goes on from job to
#   job, and a cache or a list of the module has what the jobs before left: job `sigma=3` has other random numbers in the sweep 1,2,3
#   than in 3,2,1 or alone, though each job has an output folder and a config of its own.
# Means: A setting looks better by its place in the sweep, and a run of it alone does not give the number of the table. Seed inside of
#   the task function, and keep no state in modules.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet hydra-core==1.3.8 omegaconf==2.3.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import hydra
import numpy as np
from hydra.core.config_store import ConfigStore

generator, seen = np.random.default_rng(0), []
ConfigStore.instance().store("config", {"sigma": 1})


@hydra.main(version_base=None, config_path=None, config_name="config")
def main(config):
    seen.append(config.sigma)
    print(f"sigma {config.sigma} draws {generator.random():.4f} after {len(seen) - 1} others", flush=True)


main()
EOF
for sweep in 1,2,3 3,2,1 3; do
    echo "sweep $sweep"
    "$folder/venv/bin/python" -W ignore program.py -m sigma=$sweep | grep "^sigma" | tee -a out
done
grep "^sigma 3" out | sort | uniq -c
[ "$(grep -c "^sigma 3 draws 0.6370 after 0 others" out)" = 2 ] && [ "$(grep -c "^sigma 3 draws 0.0410 after 2 others" out)" = 1 ]
