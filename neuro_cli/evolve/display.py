"""Progress of a cluster, whose newcomers do not begin at the first iteration."""

from typing import Any

from neuro_cli.run_folder.progress import Progress


class ClusterProgress(Progress):
    """Progress of a peer, with the number of peers whose reports made the last iteration."""

    _begins = True

    def update(self, row: dict[str, Any], tested: str = "") -> None:
        self._done = int(row["generation"]) - 1
        if self._begins:
            self._begins, self._start = False, self._done
        super().update(row, tested)

    def _parts(self, row: dict[str, Any]) -> list[str]:
        generation, *others = super()._parts(row)
        return [f"{generation} by {row['peers']:.0f} peer{'s' * (row['peers'] != 1)}", *others]
