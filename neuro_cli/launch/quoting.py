"""Quotes text as a value of an override, for commands built from paths that users chose."""

import re

PLAIN = re.compile(r"[\w./:@%+~-]+")  # characters that Hydra's grammar takes without quotes


def quoted(text: str) -> str:
    """Quote ``text`` as one value of Hydra's grammar."""
    return text if PLAIN.fullmatch(text) else "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
