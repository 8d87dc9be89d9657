"""``python -m neuro_cli.broker CONFIG``: one process of a cluster, without Hydra. See ``roles``."""

import json
import logging
import signal
import sys

from neuro_cli.broker.roles import serve
from neuro_cli.core.errors import report
from neuro_cli.core.process import die_with_parent


def main() -> int:
    """The exit code."""
    config = json.loads(sys.argv[1])
    if config.get("with_parent"):
        die_with_parent(signal.SIGKILL)
    logging.basicConfig(level=config.get("log", "WARNING"), format="neuro: %(message)s")
    try:
        return serve(config)
    except Exception as error:
        return report(error)


sys.exit(main())
