"""What the config of a sweep's job on a worker may name: checked in the job's own process, before anything is made."""

import json
import os
from typing import Any

from neuro_cli.broker.kinds import JOB_VARIABLE
from neuro_cli.core.errors import UserError


def check_job(config: dict[str, Any]) -> None:
    """Raise UserError for code that the worker's owner does not trust. Only in the process of a `hydra_job`; else nothing."""
    if JOB_VARIABLE not in os.environ:
        return
    from neuro_cli.runner.trust import refuse_untrusted

    try:
        refuse_untrusted(config, trusted())
    except UserError as error:
        said, _, advice = str(error).partition("; say trust=")
        package = advice.partition(" ")[0]
        raise UserError(said + (f"; the owner of the worker allows it by worker.trust=[{package}]" if advice else "")) from error


def trusted() -> list[str]:
    """The packages that the worker's owner trusts."""
    told = json.loads(os.environ[JOB_VARIABLE])
    return [str(name) for name in told["trust"]]
