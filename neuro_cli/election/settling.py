"""Wait of a new leader: it commits once it has the iterations that its peers have."""

SECONDS = 10.0  # longest wait of a new leader for its peers


class Settling:
    """Peers that a new leader waits for. ``longest``: number of iterations of the peer that is farthest."""

    def __init__(self) -> None:
        self._silent: set[str] = set()
        self._ahead: dict[str, int] = {}  # iterations of each peer that had more than the leader when that took the place
        self._until = 0.0

    def begin(self, connected: set[str], now: float) -> None:
        """Wait for an answer of each peer in ``connected``."""
        self._silent, self._ahead, self._until = set(connected), {}, now + SECONDS

    def answered(self, peer: str, position: int) -> None:
        """Note that ``peer`` is ``position`` iterations far, or (0) not farther than the leader."""
        self._silent.discard(peer)
        self._ahead[peer] = position

    def lost(self, peer: str) -> None:
        """Stop waiting for ``peer``: nobody can fetch its iterations, unless another peer has them and answers."""
        self._silent.discard(peer)
        self._ahead.pop(peer, None)

    @property
    def longest(self) -> int:
        return max(self._ahead.values(), default=0)

    def is_over(self, position: int, now: float) -> bool:
        """Return whether a leader with ``position`` iterations may commit."""
        return now >= self._until or (not self._silent and position >= self.longest)

    def end(self, position: int) -> str:
        """End the wait. Returns what the leader does without, "" where it has everything."""
        silent, longest = len(self._silent), max(self.longest, position)
        incomplete = bool(silent) or position < longest
        self._silent, self._ahead = set(), {}
        if not incomplete:
            return ""
        return f"{silent} did not answer, the longest history is {longest}, ours {position}"
