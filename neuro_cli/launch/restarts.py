"""Starts of the same command again: by SLURM, which queues the job again, or by torchrun after a lost rank (--max-restarts)."""

from neuro_cli.fabric import torchrun_environment
from neuro_cli.launch import slurm_job


def restarts() -> int:
    """Return how often the launcher has started this command again."""
    return slurm_job.restarts() or torchrun_environment.restarts()


def started_again() -> str:
    """Return a clause that says who started this command again, and how often."""
    return (
        f"SLURM started this job again ({slurm_job.restarts()})"
        if slurm_job.restarts()
        else f"torchrun started the ranks again ({restarts()})"
    )
