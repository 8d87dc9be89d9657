"""Pool of a search on one machine: a cluster of the same processes as on many machines, which ends with the search."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from neuro_cli.broker.client.submitter import Submitter
from neuro_cli.broker.local_cluster import Cluster
from neuro_cli.broker.settings import Security
from neuro_cli.broker.worker.kinds import KINDS
from neuro_cli.core.checks import integer, number
from neuro_cli.core.machine.cores import usable_cores
from neuro_cli.pool.broker import BrokerPool


class EmbeddedPool(BrokerPool):
    """Nameserver, broker and ``workers`` workers (None: as the usable cores allow), which end with this process.

    They take no connection without the certificate of this cluster, which lies in a folder that this user alone can read.
    ``memory``: GB that a task may take, None for no limit; ``task_timeout``: its seconds. Processes that end are started again.
    ``ranks``: size of the MPI job of each worker process (``worker.ranks``). ``kinds``: types of task of the workers, with their
    places; None: those of a search.
    """

    own_workers = True

    def __init__(
        self,
        workers: int | None = None,
        memory: float | None = None,
        task_timeout: float | None = None,
        ranks: int = 1,
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        # the cluster sets the address of its nameserver, and the certificates, when it starts
        super().__init__("127.0.0.1:0", task_timeout=task_timeout)
        self._ranks = integer("pool.ranks", ranks, 1, 1024)
        cores = max(1, usable_cores() // self._ranks)
        self._workers = cores if workers is None else integer("pool.workers", workers, 1, 1024)
        self._memory = None if memory is None else max(1, round(number("pool.memory", memory, above=0.0) * 1e9 / 2**20))
        self._kinds = dict(kinds) if kinds is not None else KINDS
        self._cluster: Cluster | None = None

    def _ask(self, work: Callable[[Submitter], Coroutine[Any, Any, Any]]) -> Any:
        self._revive()
        return super()._ask(work)

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self._cluster is not None:
                self._cluster.close()

    def _revive(self) -> None:
        """Start the cluster the first time, and later each of its processes that has ended."""
        if self._cluster is not None:
            self._cluster.revive()
            return
        self._cluster = Cluster()
        self._security = Security(self._cluster.certificates, local=True)
        self._nameserver = self._cluster.start_nameserver()
        self._cluster.start_broker("broker", peering=False)
        for count in range(self._workers):
            self._cluster.start_worker(
                f"worker-{count + 1}",
                kinds=list(self._kinds),
                more_kinds=self._kinds,
                memory=self._memory,
                ranks=self._ranks,
            )
