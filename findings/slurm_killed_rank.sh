#!/usr/bin/env bash
# A rank that is killed leaves the others running and its SLURM job COMPLETED
#
# Version: slurm-wlm 22.05.8 (Debian 12), on this machine by scripts/slurm_local.sh
# Belief: A job of which a rank is killed, for memory for instance, or a program ends with an error, is FAILED, and dependent jobs do not start.
# Seen: Of four ranks of `srun` one ends with 3 and one is killed: the others run to their end, srun's code is the largest, 137. With a last
#   `echo` in the script the job is COMPLETED with code 0, and a job that was to start `afterok` starts. With
#   `set -e` and `srun --kill-on-bad-exit=1` the job is FAILED.
# Means: A population is evaluated by fewer ranks, or a comparison is made of a run that broke off, and no state says so.
set -euo pipefail
export PATH="$PATH:/usr/sbin"
[ "$(slurmctld -V 2>/dev/null)" = "slurm-wlm 22.05.8" ] || { echo "not here: apt-get install slurm-wlm=22.05.8* munge (Debian 12)"; exit 3; }
cluster="$(cd "$(dirname "$0")/../scripts" && pwd)/slurm_local.sh"
folder=$(mktemp -d)
export SLURM_LOCAL="$folder/slurm" SLURM_LOCAL_CPUS=8
trap '"$cluster" stop; rm -rf "$folder"' EXIT
eval "$("$cluster" start)"
cd "$folder"
cat >rank.sh <<'RANK'
case $SLURM_PROCID in
1) exit 3 ;;
2) kill -9 $$ ;;
esac
sleep 6
echo "rank $SLURM_PROCID ends well"
RANK
printf '#!/bin/bash\nsrun -n 4 bash rank.sh\necho "code $?"\n' >plain.sh
printf '#!/bin/bash\nset -e\nsrun -n 4 --kill-on-bad-exit=1 bash rank.sh\necho "code $?"\n' >strict.sh
state() { scontrol show job "$1" | sed -n 's/ *JobState=\([A-Z]*\).*/\1/p'; }
for name in plain strict; do
    job=$(sbatch --parsable -n 4 -o $name.log $name.sh)
    sbatch --wait -o next_$name.log -d afterany:"$job" --wrap true >/dev/null
    state "$job" >$name.state
    if [ $name = plain ]; then sbatch --wait -o after.log -d afterok:"$job" --wrap "echo started" >/dev/null; fi
    echo "$name: $(cat $name.state)"
    cat $name.log
done
cat after.log
[ "$(cat plain.state)" = COMPLETED ] && [ "$(grep -c "ends well" plain.log)" = 2 ] && grep -q "code 137" plain.log && grep -q started after.log
[ "$(cat strict.state)" = FAILED ] && ! grep -q "^code" strict.log
