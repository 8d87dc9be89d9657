#!/usr/bin/env bash
# A private SLURM for tests and trials, of nodes on this machine, without systemd, cgroups or a database.
#
#   eval "$(scripts/slurm_local.sh start)"    # prints the export lines that point sbatch, srun and sacct at it
#   scripts/slurm_local.sh status
#   scripts/slurm_local.sh stop               # cancels its jobs, ends its daemons
#
# SLURM_LOCAL       folder of its state (default: neuro-slurm-<uid> in TMPDIR); all it writes lies there
# SLURM_LOCAL_NODES nodes, each with a slurmd of its own (default: 1, with this machine's name; else node1, node2, ...)
# SLURM_LOCAL_CPUS  cpus that a node hands out, more than there are is allowed (default: those there are)
# SLURM_LOCAL_PORT  first of its ports on 127.0.0.1, one more than nodes (default: free ones from 20000 to 29999)
#
# Debian: apt-get install --no-install-recommends slurm-wlm munge. Run it as root, or as a user who may start slurmd.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"
state=${SLURM_LOCAL:-${TMPDIR:-/tmp}/neuro-slurm-$(id -u)}
scripts=$(cd "$(dirname "$0")" && pwd)
nodes=${SLURM_LOCAL_NODES:-1}
export SLURM_CONF=$state/slurm.conf

# say TEXT: messages go to stderr, stdout is for eval
say() { echo "slurm_local: $*" >&2; }

# own DAEMON: its pid, if the process that the pid file names is alive and works on our folder
own() {
  local pid
  pid=$(cat "$state/run/$1.pid" 2>/dev/null) || return 1
  [ -n "$pid" ] && { tr '\0' ' ' < "/proc/$pid/cmdline" | grep -qF -- "$state/"; } 2>/dev/null && echo "$pid"
}

free_ports() {  # FIRST: whether it and one more for each node are free
  local port
  for port in $(seq "$1" $(($1 + nodes))); do
    ! (exec 3<> "/dev/tcp/127.0.0.1/$port") 2>/dev/null || return 1
  done
}

choose_port() {
  local port=${SLURM_LOCAL_PORT:-$((20000 + RANDOM % 9000))}  # at random: two that start at once would see the same ones free
  until free_ports "$port"; do
    [ -z "${SLURM_LOCAL_PORT:-}" ] || { say "of ports $port to $((port + nodes)) of SLURM_LOCAL_PORT some are taken"; exit 1; }
    port=$((port + nodes + 1))
  done
  echo "$port"
}

names() { if [ "$nodes" = 1 ]; then hostname -s; else seq -f 'node%g' "$nodes"; fi; }

configure() {
  local host user cpus port
  host=$(hostname -s) user=$(id -un) cpus=${SLURM_LOCAL_CPUS:-$(nproc)} port=$(choose_port)
  # a number that no earlier SLURM of ours had: MPICH finds the shared memory of killed ranks by the job's number
  local first=$(( (RANDOM << 10) + (RANDOM & 1023) + 1 ))
  # cred_expire is also how long a requeued job waits before it starts again
  cat > "$state/slurm.conf" <<CONF
ClusterName=neuro_local
FirstJobId=$first
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$state/run/munge.sock,cred_expire=5
CredType=cred/munge
SlurmctldPort=$port
SlurmctldPidFile=$state/run/slurmctld.pid
SlurmdPidFile=$state/run/slurmd-%n.pid
StateSaveLocation=$state/state
SlurmdSpoolDir=$state/spool/%n
SlurmctldLogFile=$state/log/slurmctld.log
SlurmdLogFile=$state/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,sched_min_interval=200000,bf_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PropagateResourceLimits=NONE
ReturnToService=2
KillWait=10
SlurmdParameters=config_overrides
NodeName=DEFAULT CPUs=$cpus Boards=1 SocketsPerBoard=1 CoresPerSocket=$cpus ThreadsPerCore=1 RealMemory=4000 State=UNKNOWN
CONF
  local name
  for name in $(names); do
    echo "NodeName=$name NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port += 1))"
  done >> "$state/slurm.conf"
  echo "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP" >> "$state/slurm.conf"
}

start_daemons() {
  munged --key-file="$state/munge/munge.key" --socket="$state/run/munge.sock" --pid-file="$state/run/munged.pid" \
    --log-file="$state/log/munged.log" --seed-file="$state/munge/munged.seed" --force
  slurmctld -f "$SLURM_CONF"
  local name
  for name in $(names); do
    slurmd -f "$SLURM_CONF" -N "$name"
  done
  for _ in $(seq 120); do
    if [ "$(sinfo -h -N -t idle -o %N 2>/dev/null | sort -u | wc -l)" = "$nodes" ]; then return; fi
    sleep 0.25
  done
  say "not all nodes become idle; see $state/log"
  stop
  exit 1
}

daemons() { printf '%s\n' munged slurmctld; names | sed 's/^/slurmd-/'; }

all_run() {
  local daemon
  for daemon in $(daemons); do
    own "$daemon" > /dev/null || return 1
  done
}

start() {
  local program
  for program in munged slurmctld slurmd sinfo; do
    command -v "$program" > /dev/null || { say "there is no $program: apt-get install slurm-wlm munge"; exit 1; }
  done
  if ! all_run; then
    stop
    mkdir -p "$state"/{run,log,state,spool,munge,bin}
    chmod 700 "$state/munge"
    chmod 755 "$state" "$state"/{run,log,state,spool}
    [ -s "$state/munge/munge.key" ] || head -c 1024 /dev/urandom > "$state/munge/munge.key"
    chmod 400 "$state/munge/munge.key"
    ln -sf "$scripts/sacct_stand_in.py" "$state/bin/sacct"
    configure
    start_daemons >&2
  fi
  echo "export SLURM_CONF='$SLURM_CONF'"
  echo "export PATH='$state/bin':\$PATH   # sacct there is a stand-in: this SLURM keeps no accounts"
}

# end DAEMON: ask it to end, wait, make it
end() {
  local pid
  pid=$(own "$1") || return 0
  kill "$pid"
  for _ in $(seq 40); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.25
  done
  kill -KILL "$pid" 2>/dev/null || true
}

stop() {
  if own slurmctld > /dev/null && timeout 10 scancel --user "$(id -un)" 2>/dev/null; then
    for _ in $(seq 60); do
      [ -n "$(timeout 10 squeue -h 2>/dev/null)" ] || break
      sleep 0.25
    done
  fi
  local file
  for file in "$state"/run/slurmd-*.pid; do
    file=${file##*/}
    end "${file%.pid}"
  done
  end slurmctld
  end munged
}

status() {
  local daemon
  for daemon in $(daemons); do
    echo "$daemon: $(own "$daemon" || echo "not running")"
  done
  if own slurmctld > /dev/null; then timeout 10 sinfo && timeout 10 squeue; fi
}

case ${1:-} in
  start | stop | status) "$1" ;;
  *) say "usage: $0 start | stop | status"; exit 2 ;;
esac
