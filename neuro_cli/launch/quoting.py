"""Text as a value of an override, for commands that this program makes of paths that users chose."""

import re

PLAIN = re.compile(r"[\w./:@%+~-]+")  # what Hydra's grammar takes without quotes


def quoted(text: str) -> str:
    """``text`` as one value of Hydra's grammar."""
    return text if PLAIN.fullmatch(text) else "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
