"""Checks the code that a sweep's job on a worker may name, in the job's own process, before anything is instantiated."""

import os
from typing import Any

from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.current_folder import JOB_VARIABLE
from neuro_cli.factory.own_code import trusted_in_job


def check_job(config: dict[str, Any]) -> None:
    """Raise UserError for code that the worker's owner does not trust. Only in the process of a `hydra_job`; else nothing."""
    if JOB_VARIABLE not in os.environ:
        return
    from neuro_cli.factory.trust import refuse_untrusted

    try:
        refuse_untrusted(config, trusted_in_job())
    except UserError as error:
        said, _, advice = str(error).partition("; pass trust=")
        package = advice.partition(" ")[0]
        raise UserError(said + (f"; the owner of the worker allows it by worker.trust=[{package}]" if advice else "")) from error
