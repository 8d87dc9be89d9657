"""Quotes text as a value of an override, for commands built from paths that users chose."""

import re

PLAIN = re.compile(r"[\w./:@%+~-]+")  # characters that Hydra's grammar takes without quotes
_COUNTED = re.compile(r"(\\*)('|$)")


def quoted(text: str) -> str:
    """Quote ``text`` as one value of Hydra's grammar, in which backslashes count only before a quote or the end."""
    if PLAIN.fullmatch(text):
        return text
    return "'" + _COUNTED.sub(lambda part: part[1] * 2 + ("\\'" if part[2] else ""), text) + "'"
