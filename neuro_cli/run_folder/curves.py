"""Choice to draw the plot ``curves.png`` of a run: matplotlib costs most of a second, much for a short job."""

import os

VARIABLE = "NEURO_CURVES"
OFF = "0"


def wanted() -> bool:
    """Tell whether the plot is drawn: always, unless the environment says ``NEURO_CURVES=0``."""
    return os.environ.get(VARIABLE) != OFF
