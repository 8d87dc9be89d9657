"""Jobs of a sweep on a task cluster: submits all of them together and waits for all."""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neuro_cli.core.errors import lines_apart
from neuro_cli.launch.option_files import as_typed
from neuro_cli.pool.base import WorkUnit
from neuro_cli.pool.broker import BrokerPool

log = logging.getLogger(__name__)

WAIT_SECONDS = 10.0


@dataclass(frozen=True)
class SweepJob:
    """``number`` in its sweep, ``verb`` of neuro, ``folder`` of its run."""

    number: int
    verb: str
    overrides: Sequence[str]
    folder: str


class SweepJobError(Exception):
    """Job that ended with an error, which was printed."""


def run_jobs(jobs: Sequence[SweepJob], settings: Mapping[str, Any]) -> list[SweepJobError | None]:
    """Run all jobs on the cluster that ``settings`` of `BrokerPool` name. Returns the error of each, None if it has none.

    Raises UserError without a cluster. An interrupt drops the jobs that are left.
    """
    pool = BrokerPool(**settings)
    errors: dict[str, SweepJobError | None] = {}
    try:
        pool.submit([_task(job) for job in jobs])
        while len(errors) < len(jobs):
            for result in pool.results(WAIT_SECONDS):
                errors[result.id] = SweepJobError(result.error) if result.error else None
                if result.error:
                    print(lines_apart(f"neuro: job {result.id}: {result.error}"), file=sys.stderr, flush=True)
    finally:
        pool.close()
    return [errors[str(job.number)] for job in jobs]


def _task(job: SweepJob) -> WorkUnit:
    overrides = [as_typed(text) for text in job.overrides]
    data = {"verb": job.verb, "overrides": overrides, "folder": job.folder, "cwd": os.getcwd(), "number": job.number}
    return WorkUnit(str(job.number), "hydra_job", data)
