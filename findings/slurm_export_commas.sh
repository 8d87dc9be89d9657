#!/usr/bin/env bash
# A list that is given to a SLURM job by --export is cut at its first comma
#
# Version: slurm-wlm 22.05.8 (Debian 12), on this machine by scripts/slurm_local.sh
# Belief: `sbatch --export=ALL,SEEDS=1,2,3 job.sh` gives the job SEEDS=1,2,3.
# Seen: SEEDS is 1, with no word. Quotes of the shell change nothing, quotes within keep the list and stay in it; `SEEDS=1,2,3 sbatch job.sh` is right.
#   With `--export=SEED=3` alone the job has none of the shell's own variables, such as a folder of data.
# Means: A job over several seeds or learning rates does the first one and ends well. Set such a variable in front of sbatch.
set -euo pipefail
export PATH="$PATH:/usr/sbin"
[ "$(slurmctld -V 2>/dev/null)" = "slurm-wlm 22.05.8" ] || { echo "not here: apt-get install slurm-wlm=22.05.8* munge (Debian 12)"; exit 3; }
cluster="$(cd "$(dirname "$0")/../scripts" && pwd)/slurm_local.sh"
folder=$(mktemp -d)
export SLURM_LOCAL="$folder/slurm" SLURM_LOCAL_CPUS=8
trap '"$cluster" stop; rm -rf "$folder"' EXIT
eval "$("$cluster" start)"
cd "$folder"
cat >job.sh <<'JOB'
#!/bin/bash
echo "seeds ${SEEDS:-none} data ${DATA:-none}"
JOB
export DATA=here
sbatch --wait -o plain.log --export=ALL,SEEDS=1,2,3 job.sh
sbatch --wait -o shell.log "--export=ALL,SEEDS=1,2,3" job.sh
sbatch --wait -o inner.log --export="ALL,SEEDS='1,2,3'" job.sh
SEEDS=1,2,3 sbatch --wait -o front.log job.sh
sbatch --wait -o alone.log --export=SEEDS=3 job.sh
head plain.log shell.log inner.log front.log alone.log
[ "$(cat plain.log shell.log | sort -u)" = "seeds 1 data here" ]
[ "$(cat inner.log)" = "seeds '1,2,3' data here" ] && [ "$(cat front.log)" = "seeds 1,2,3 data here" ]
[ "$(cat alone.log)" = "seeds 3 data none" ]
