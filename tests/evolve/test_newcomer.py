"""A newcomer to a long history: all its records, or a snapshot and the records after it; how long that takes is printed."""

import re
import time

import pytest
from cluster_lab import Lab, Peer, consistent
from test_kills import replayed

from neuro_cli.evolve.ledger.file import read_ledger

pytestmark = pytest.mark.slow
ITERATIONS = 10_000
QUICK = ("model=MNIST_30K", "population=2", "batch_size=4", "selection=max", "generations=10000000", "cluster.join_timeout=60")


def taken_part(founder: Peer) -> bool:
    """Whether the last iterations were made by two."""
    lines = (founder.run / "metrics.csv").read_text().splitlines()
    column = lines[0].split(",").index("peers")
    return any(line.split(",")[column] == "2" for line in lines[1:][-200:])


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("compact_every", [10_000_000, 4_000])
def test_a_newcomer_at_iteration_10000(tmp_path, compact_every):
    lab = Lab(tmp_path, *QUICK, f"cluster.compact_every={compact_every}")
    try:
        founder = lab.start()
        reached = lab.wait(lambda: founder.iteration() >= ITERATIONS, 900, "iterations")
        begun, at = time.monotonic(), founder.iteration()
        newcomer = lab.start(join=founder.address)
        lab.wait(lambda: taken_part(founder), 200, "the newcomer takes part")
        ready = time.monotonic() - begun
        beyond = founder.iteration() + 20
        lab.wait(lambda: newcomer.iteration() > beyond, 60, "both go on")
    finally:
        lab.end()
    log = (newcomer.run / "log.txt").read_text()
    (speed,) = re.findall(r"replayed \d+ iterations in .*", log)[:1]
    print(f"{at} iterations by one peer in {reached:.0f} s; a newcomer took part {ready:.1f} s after its start; {speed}")
    ledgers = [read_ledger(peer.run) for peer in (founder, newcomer)]
    if compact_every > ITERATIONS:
        consistent(ledgers)
        longest = max(ledgers, key=lambda ledger: ledger.next)
        truth = replayed(founder.run, longest, {peer.summary()["generations"] for peer in (founder, newcomer)})
        for peer in (founder, newcomer):
            assert peer.summary()["parameters_sha256"] == truth[peer.summary()["generations"]]
    else:
        assert "begins with a snapshot of iteration" in log
        assert all(ledger.base >= ITERATIONS - 4_000 for ledger in ledgers)
        short, long = sorted(ledgers, key=lambda ledger: ledger.next)
        assert long.head_at(short.next) == short.head
