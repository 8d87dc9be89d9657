"""A trained part that is large, beside frozen weights of another type: its members share a pass."""

from support.inside import neuro_inside, well
from support.tiny_language import tiny_model

from neuro_cli.scoring import batched, trial


def test_members_of_matrices_share_a_pass_that_uses_the_centre_itself(tmp_path, monkeypatch):
    for module in (trial, batched):
        monkeypatch.setattr(module, "is_large", lambda module, centre: True)
    path = tiny_model(tmp_path / "tiny")
    short = (
        "population=4",
        "batch_size=2",
        "generations=1",
        "threads=1",
        "task.count=20",
        "task.test_size=4",
        "task.new_tokens=4",
    )
    line = ("train", "+experiment=eggroll", *short, f"model.path={path}")
    well(neuro_inside(*line, "hydra.run.dir=run", cwd=tmp_path))
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "4 members in one forward pass" in log
    assert "one by one" not in log
