"""An evaluation before training is said, stands in the log, and leaves the run as it is."""

import json

import pytest
from support.inside import neuro_inside, well

SHORT = ("population=8", "batch_size=16", "generations=2", "evaluate.every=1", "threads=1")


@pytest.mark.parametrize("parts", [("algo=openai_es",), ("sampler=activation",)])
def test_what_the_network_knows_before_training(parts, tmp_path):
    summaries = []
    for start in (False, True):
        run = tmp_path / str(start)
        done = well(neuro_inside("train", *parts, *SHORT, f"evaluate.start={start}", f"hydra.run.dir={run}", cwd=tmp_path))
        said = [line for line in done.stdout.splitlines() if "before training: test accuracy 0." in line]
        assert len(said) == start
        assert ("before training: test accuracy" in (run / "log.txt").read_text()) == start
        summaries.append(json.loads((run / "summary.json").read_text()))
    assert len({summary["parameters_sha256"] for summary in summaries}) == 1
