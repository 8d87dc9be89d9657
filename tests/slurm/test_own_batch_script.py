"""The batch script of the page about SLURM on a real SLURM: announced, it stops with a checkpoint; queued again, it resumes"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.inside import well
from support.tables import rows_of
from support.waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "how_to" / "slurm.md"
SMALL = "population=8 batch_size=16 threads=1 generations=400 evaluate.every=400 checkpoint.every=400"


def script() -> str:
    """The page's script for two ranks."""
    found = re.search(r"^    #!/bin/bash\n(?:    .*\n)+", PAGE.read_text(), re.MULTILINE)
    assert found
    text = re.sub(r"^    ", "", found[0], flags=re.MULTILINE)
    small = text.replace("--ntasks=16 --cpus-per-task=4", "--ntasks=2 --cpus-per-task=1").replace("ranks=16", "ranks=2")
    assert small.count("=2 ") == 2
    return small.replace("population=1024", SMALL)


def generations(run: Path) -> list[int]:
    """Of the rows of ``metrics.csv``."""
    if not (run / "metrics.csv").exists():
        return []
    return [int(row["generation"]) for row in rows_of(run / "metrics.csv")]


@pytest.mark.slow
def test_the_script_of_the_page_stops_and_goes_on(slurm, tmp_path):
    environment = slurm | {"PATH": f"{Path(sys.executable).parent}:{slurm['PATH']}"}
    run = tmp_path / "outputs" / "train" / "mine"

    def ask(*command: str) -> str:
        done = well(subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60))
        return done.stdout.strip()

    (tmp_path / "job.sh").write_text(script())
    job = ask("sbatch", "--parsable", "--output=job.log", "--open-mode=append", "job.sh")
    try:
        until(lambda: len(generations(run)) > 5, what="no rows")
        ask("scancel", "--batch", "--signal=USR2", job)  # what SLURM sends before the end of the time
        until(lambda: not ask("squeue", "-h", "-t", "pending,running,completing", "-j", job), what="it does not end")
        before = generations(run)
        assert 5 < len(before) < 400
        assert (run / "checkpoints" / f"{before[-1]:08d}.safetensors").exists()
        ask("scontrol", "requeue", job)
        until(lambda: generations(run)[-1:] == [400], what="it does not go on to its end")
    finally:
        subprocess.run(["scancel", job], env=environment, capture_output=True, timeout=60)
    assert generations(run) == list(range(1, 401))
    assert f"SLURM started this job again (1): it resumes from generation {before[-1]}" in (run / "log.txt").read_text()
