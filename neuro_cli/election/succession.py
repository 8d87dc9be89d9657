"""Succession: the first peer that no longer hears the leader takes its place. For machines that trust their network.

The leader sends heartbeats, so that its loss shows within seconds, and a cluster works down to its last survivor.
"""

import logging

from neuro_cli.core import checks
from neuro_cli.core.errors import ConfigError
from neuro_cli.election.base import Host
from neuro_cli.election.longest_history import LongestHistory

log = logging.getLogger(__name__)


class Succession(LongestHistory):
    """``heartbeat``, ``timeout_min``, ``timeout_max``: seconds; a leader without a heartbeat for the timeout is replaced."""

    name = "succession"

    def __init__(self, heartbeat: float, timeout_min: float, timeout_max: float) -> None:
        super().__init__()
        self._heartbeat = checks.number("election.heartbeat", heartbeat, above=0.0)
        self._shortest = checks.number("election.timeout_min", timeout_min, above=heartbeat)
        self._longest = checks.number("election.timeout_max", timeout_max)
        if self._longest <= self._shortest:
            raise ConfigError("election.timeout_max", timeout_max, f"must be > timeout_min={timeout_min:g}")

    def start(self, host: Host, me: str, members: list[str], term: int, newcomer: bool) -> None:
        self._beaten = self._deadline = 0.0  # time of the leader's last own message; time at which it may be replaced
        super().start(host, me, members, term, newcomer)
        self._postpone()
        if self._members == {me}:
            self._take()

    def resign(self) -> None:
        """Stop the heartbeats, and do not lead again."""
        if self.can_commit:
            self._leader, self._deadline = None, float("inf")

    def connected(self, peer: str, there: bool) -> None:
        if peer == self._leader and not there:
            self._deadline = min(self._deadline, self.host.now() + self.draw.uniform(0.0, self._heartbeat))

    def tick(self) -> None:
        now = self.host.now()
        if self.can_commit:
            if now - self._beaten >= self._heartbeat:
                self._speak()
        elif now > self._deadline:
            self._take()
        elif now - self._beaten >= self._longest and self._leader is not None:
            self._beaten = now  # its leader may not know of those who are no members, nor they of it
            self._tell({"type": "led", "leader": self._leader}, set(self._others))

    def stop(self) -> None:
        """Stop sending; the others notice the silence."""

    def _take(self) -> None:
        self._term, self._leader = self._term + 1, self.me
        log.info("takes the leader's place in term %d", self._term)
        self._speak()

    def _speak(self) -> None:
        self._beaten = self.host.now()
        super()._speak()

    def _postpone(self) -> None:
        self._deadline = self.host.now() + self.draw.uniform(self._shortest, self._longest)

    def _outlives(self, term: int, position: int, mine: int) -> bool:
        """A peer with the longer history takes the other's place, or reports that it leads."""
        if position >= mine or not (self.leads or term > self._term):
            return False
        if self.leads and term < self._term:
            self._speak()
        else:
            self._term = max(self._term, term)
            self._take()
        return True
