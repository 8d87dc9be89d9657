"""Shares of ranks: the members that each scores, the columns that it sums, the examples that it reads."""


def shares(total: int, parts: int) -> list[tuple[int, int]]:
    """Return the shares [j total / parts, (j + 1) total / parts) of every rank j, which together cover ``total``."""
    return [(part * total // parts, (part + 1) * total // parts) for part in range(parts)]
