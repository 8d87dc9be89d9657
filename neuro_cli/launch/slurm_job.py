"""SLURM from inside a job: starts its ranks by srun, counts its restarts, and waits for its end."""

import logging
import os
import shutil
import subprocess
import time
from collections.abc import Mapping

log = logging.getLogger(__name__)

MPI_SETTING = "NEURO_SRUN_MPI"  # environment variable with a site's value of srun --mpi; none: mpiexec instead of srun
# prefixes of a job's variables, the only ones that a step started in another step may see
_JOB_VARIABLES = ("SLURM_JOB", "SLURM_CONF", "SLURM_CLUSTER_NAME", "SLURM_ARRAY", "SLURM_SUBMIT", "SLURM_RESTART")
STEPS = 32  # steps that one start of a job may have; ours has three
PATIENCE = 600.0  # seconds that SLURM may take to end a job that it has asked to stop


def in_job() -> bool:
    """Return whether this process runs in a SLURM allocation (sbatch, salloc, srun)."""
    return "SLURM_JOB_ID" in os.environ


def restarts() -> int:
    """Return how often SLURM has restarted this job, after preemption, time-out or the loss of a node."""
    count = os.environ.get("SLURM_RESTART_COUNT", "0")
    return int(count) if in_job() and count.isdigit() else 0


def by_submitit() -> bool:
    """Return whether this process is a job of a sweep with ``hydra/launcher=slurm``."""
    return in_job() and "SUBMITIT_FOLDER" in os.environ


def job_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return ``environment`` without SLURM's variables of the present step, which a new step would take for its own options."""
    return {
        name: value for name, value in environment.items() if not name.startswith("SLURM_") or name.startswith(_JOB_VARIABLES)
    }


def step_options() -> list[str]:
    """Return the options of srun for a world. Ranks are not bound to cores: those of a node divide its cores among them."""
    cpus = os.environ.get("SLURM_CPUS_PER_TASK")
    options = ["--overlap", "--overcommit", "--cpu-bind=none", "--kill-on-bad-exit=1", "--quiet"]
    return [*options, f"--cpus-per-task={cpus}"] if cpus else options


def srun_kind(default: str) -> tuple[str, str] | None:
    """Return the path of srun and its ``--mpi`` for a world in this allocation; None where mpiexec must be used, which is logged.

    ``default``: the kind that this Python's MPI speaks, pmi2 (MPICH) or pmix (Open MPI); NEURO_SRUN_MPI overrules it.
    """
    wanted = os.environ.get(MPI_SETTING) or default
    path = shutil.which("srun")
    if wanted == "none":
        log.info("%s=none: mpiexec starts the ranks", MPI_SETTING)
        return None
    if path is None:
        log.warning("no srun in this SLURM job: mpiexec starts the ranks")
        return None
    asked = subprocess.run([path, "--mpi=list"], capture_output=True, text=True, timeout=60)
    offered = (asked.stdout + asked.stderr).split()
    if wanted not in offered:
        log.warning("srun --mpi=list has no %s (%s sets another): mpiexec starts the ranks", wanted, MPI_SETTING)
        return None
    return path, wanted


def clear_segments(srun: str) -> None:
    """Remove the shared memory that killed ranks of this job left, on all its nodes. No world of the job may be alive.

    MPICH names it after job and step, takes whatever it finds under the name, and then fails in MPI_Init. A job that is
    started again keeps its number and counts its steps from 0 again.
    """
    job, nodes = os.environ["SLURM_JOB_ID"], os.environ.get("SLURM_JOB_NUM_NODES", "1")
    names = (f"/dev/shm/mpich_{part}_{_fnv(f'{job}.{step}'):x}_*" for step in range(STEPS) for part in ("shm", "vci"))
    options = ["--mpi=none", "--overlap", "--quiet", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    command = [srun, *options, "sh", "-c", f"rm -f {' '.join(names)}"]
    # srun reads its input to the end for the step: it may be the list of a shell's loop
    done = subprocess.run(
        command, env=job_environment(os.environ), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    if done.returncode:
        log.warning("shared memory of killed ranks may be left: %s", " ".join(done.stderr.split()))


def _fnv(text: str) -> int:
    """Return the FNV-1a hash of 32 bits, MPICH's number for the name of a world."""
    number = 0x811C9DC5
    for byte in text.encode():
        number = (number ^ byte) * 0x01000193 & 0xFFFFFFFF
    return number


def await_end() -> None:
    """Wait until SLURM no longer calls this job running.

    A job that ends by itself after SLURM asked it to make room (preemption with a grace time) is not queued again.
    """
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        command = ["squeue", "--noheader", "--format=%T", f"--jobs={os.environ['SLURM_JOB_ID']}"]
        try:
            state = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()
        except (OSError, subprocess.TimeoutExpired) as error:
            log.warning("cannot read the state of this job: %s", error)
            return
        if state != "RUNNING":
            return
        time.sleep(1.0)
    log.warning("SLURM asked this job to stop and did not end it in %g s", PATIENCE)
