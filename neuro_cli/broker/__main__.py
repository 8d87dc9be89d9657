"""``python -m neuro_cli.broker CONFIG``: one process of a cluster, without Hydra. See ``roles``."""

import json
import logging
import sys

from neuro_cli.broker.roles import serve
from neuro_cli.core.errors import report


def main() -> int:
    """Serve a role of the task cluster. Returns the exit code."""
    config = json.loads(sys.argv[1])
    logging.basicConfig(level=config.get("log", "WARNING"), format="neuro: %(message)s")
    try:
        return serve(config)
    except Exception as error:
        return report(error)


sys.exit(main())
