"""Switch of the plot ``curves.png``: matplotlib costs most of a second, which is much for a short job."""

import os

VARIABLE = "NEURO_CURVES"
OFF = "0"


def wanted() -> bool:
    """Return whether the plot is drawn: always, unless the environment has ``NEURO_CURVES=0``."""
    return os.environ.get(VARIABLE) != OFF
