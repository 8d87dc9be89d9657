#!/usr/bin/env bash
# The output of a SLURM job begins again where the job is queued again, and so does an array task's
#
# Version: slurm-wlm 22.05.8 (Debian 12), on this machine by scripts/slurm_local.sh
# Belief: What a job has written to its output file stays, whatever happens to the job later.
# Seen: After a requeue (preemption, a lost node, `scontrol requeue`) the file has the second run's lines only, of a job and of one array
#   task, under the same job number. The other tasks keep theirs. With `--open-mode=append` both runs are there.
# Means: Losses, the seed and the error of the first part of a run are gone without a word, and a resumed run looks like one that
#   began there. Say `#SBATCH --open-mode=append`.
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
echo "run ${SLURM_RESTART_COUNT:-0} of $SLURM_JOB_ID"
touch "begun.$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}"
[ -n "${SLURM_RESTART_COUNT:-}" ] || sleep "$1"
JOB
await() { for _ in $(seq 240); do ! "$@" >/dev/null 2>&1 || return 0; sleep 0.5; done; echo "not reached: $*"; exit 1; }
plain=$(sbatch --parsable --requeue -o plain.log job.sh 100)
append=$(sbatch --parsable --requeue --open-mode=append -o append.log job.sh 100)
tasks=$(sbatch --parsable --requeue -o task_%a.log --array=1-2 job.sh 100)
await test -e "begun.$plain.0" -a -e "begun.$append.0"
await sh -c 'grep -q run task_1.log && grep -q run task_2.log'
sleep 1
scontrol requeue "$plain"
scontrol requeue "$append"
scontrol requeue "${tasks}_2"
await grep -q "run 1" append.log
await grep -q "run 1" plain.log
await grep -q "run 1" task_2.log
head plain.log append.log task_1.log task_2.log
[ "$(grep -c run plain.log)" = 1 ] && [ "$(cat plain.log)" = "run 1 of $plain" ]
[ "$(grep -c "run [01] of $append" append.log)" = 2 ]
grep -q "run 0" task_1.log
[ "$(grep -c run task_2.log)" = 1 ]
