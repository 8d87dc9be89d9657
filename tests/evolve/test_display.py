"""Progress of a peer that begins in the middle."""

import io

from rich.console import Console

from neuro_cli.evolve.display import ClusterProgress


def test_a_newcomers_first_iteration_and_the_peers_are_shown_on_a_terminal_and_in_a_file():
    for terminal in (True, False):
        text = io.StringIO()
        with ClusterProgress(20, console=Console(file=text, force_terminal=terminal, width=120)) as view:
            for generation in (19, 20):
                row = {"generation": generation, "fitness_mean": -1.0, "candidates_per_second": 10.0, "peers": 3}
                view.update(row)
        assert "20/20 by 3 peers  fitness -1" in text.getvalue()
        assert "1/20" not in text.getvalue()
