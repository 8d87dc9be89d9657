"""algo=random_vote keeps the best members of all generations by their addresses, and they vote."""

import json
import shutil

import numpy as np
import pytest
import torch
from support.inside import neuro_in_one_world, neuro_inside, one_line, well
from support.worlds import needs_mpi

from neuro_cli.algo.random_vote import RandomVote
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.module.voters import most_frequent, tally
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.run_folder.checkpoint import CheckpointStore
from neuro_cli.run_folder.config import saved_config
from neuro_cli.runner.build import build
from neuro_cli.runner.load import load
from neuro_cli.runner.options import Options

SHORT = (
    "algo=random_vote", "algo.sigma=[0.02,0.1]", "algo.keep=5", "population=12", "batch_size=64", "generations=2", "threads=1",
    "evaluate.every=100", "checkpoint.every=1", "checkpoint.keep=9",
)  # fmt: skip


def summary(run) -> dict:
    return json.loads((run / "summary.json").read_text())


def voters(run) -> list:
    tensors = CheckpointStore(run, keep=9).load(None).tensors
    return [*tensors["algo.addresses"].tolist(), *tensors["algo.fitness"].tolist()]


@needs_mpi
@pytest.mark.xdist_group("ranks")
def test_a_vote_has_the_same_members_on_any_ranks_and_after_a_resume_and_is_exported(tmp_path):
    well(neuro_inside("train", *SHORT, "hydra.run.dir=one", cwd=tmp_path))
    done = neuro_in_one_world(("train", *SHORT, "hydra.run.dir=three"), ranks=3, cwd=tmp_path)[0]
    assert done.returncode == 0, done.stderr
    shutil.copytree(tmp_path / "one", tmp_path / "from1")
    well(neuro_inside("resume", "from1", "checkpoint=1", cwd=tmp_path))
    for other in ("three", "from1"):
        assert voters(tmp_path / other) == voters(tmp_path / "one")
        assert summary(tmp_path / other)["test_accuracy"] == summary(tmp_path / "one")["test_accuracy"]
    fitness = CheckpointStore(tmp_path / "one", keep=9).load(None).tensors["algo.fitness"]
    assert len(fitness) == 5
    assert fitness.tolist() == sorted(fitness.tolist(), reverse=True)

    done = neuro_inside("evaluate", "one", cwd=tmp_path)
    assert f"{summary(tmp_path / 'one')['test_accuracy']:.4f}" in done.stdout
    np.save(tmp_path / "some.npy", np.random.default_rng(1).normal(size=(3, 1, 28, 28)).astype(np.float32))
    done = well(neuro_inside("predict", "one", "some.npy", cwd=tmp_path))
    assert len(done.stdout.splitlines()) == 3
    well(neuro_inside("export", "one", "file=best.votes", cwd=tmp_path))
    head, _, addresses = (tmp_path / "best.votes").read_bytes().partition(b"\n")
    assert json.loads(head)["vote"]["sigmas"] == [0.02, 0.1]
    assert len(addresses) == 5 * 8
    assert np.frombuffer(addresses, "<u4").reshape(-1, 2).tolist() == voters(tmp_path / "one")[:5]
    inputs = torch.from_numpy(np.load(tmp_path / "some.npy"))
    wanted = load(tmp_path / "one")(inputs)
    assert torch.equal(load(tmp_path / "best.votes")(inputs), wanted)  # the base is the model that the file names
    base = load(tmp_path / "best.votes").network
    assert torch.equal(load(tmp_path / "best.votes", model=base)(inputs), wanted)
    with torch.no_grad():
        next(base.parameters()).add_(1)
    with pytest.raises(UserError, match="SHA-256"):
        load(tmp_path / "best.votes", model=base)
    for content in (b"", b"{}\n12345678", head + b"\n", head + b"\n1234", head.replace(b'"seed"', b'"sed"') + b"\n12345678"):
        (tmp_path / "bad.votes").write_bytes(content)
        with pytest.raises(UserError, match="no voters of neuro"):
            load(tmp_path / "bad.votes")
    for old, new, line in ((b"neuro_cli.sampler.", b"os.path.", "it runs code of os"), (b"[0.02, 0.1]", b"[]", "sigma")):
        (tmp_path / "bad.votes").write_bytes(head.replace(old, new) + b"\n12345678")
        with pytest.raises(UserError, match=line):
            load(tmp_path / "bad.votes")
    assert "is no graph" in one_line(neuro_inside("export", "one", "file=best.onnx", cwd=tmp_path))


def test_a_voter_is_the_member_that_was_scored(tmp_path):
    well(neuro_inside("train", *SHORT, "algo.keep=1", "hydra.run.dir=run", cwd=tmp_path))
    vote = load(tmp_path / "run")
    assert vote.count == 1
    inputs = torch.randn(8, 1, 28, 28)
    fitness = CheckpointStore(tmp_path / "run", keep=9).load(None).tensors["algo.fitness"]
    assert torch.equal(next(vote.each())(inputs).argmax(1), vote(inputs).argmax(1))
    parts = build(Options(saved_config(tmp_path / "run")), SingleProcess())
    score = parts.task.score(next(vote.each()), parts.task.batch(7, 0, 64))[0] / 64  # all generations have the same examples
    assert score == pytest.approx(float(fitness[0]), abs=1e-5)


def test_language_models_vote_by_their_answers(tmp_path):
    pytest.importorskip("transformers")
    from support.tiny_language import tiny_model

    path = tiny_model(tmp_path / "tiny")
    task = (
        "task=reward",
        "task.reward=exact_match",
        "task.count=20",
        "task.test_size=4",
        "model=huggingface",
        "task.new_tokens=3",
    )
    line = (*SHORT, "batch_size=4", "algo.sigma=0.3", *task, f"model.path={path}", "sampler=low_rank")
    well(neuro_inside("train", *line, "hydra.run.dir=run", cwd=tmp_path))
    module = load(tmp_path / "run")
    assert module.count == 5
    assert 0 <= summary(tmp_path / "run")["test_accuracy"] <= 1


def test_the_most_frequent_class_and_answer_wins_and_ties_go_to_the_best_voter():
    choices = torch.tensor([[2, 0], [1, 1], [1, 3], [0, 3]])  # of four voters for two examples
    assert tally(choices, 4).argmax(-1).tolist() == [1, 3]
    assert tally(choices[:2], 4).argmax(-1).tolist() == [2, 0]
    assert tally(choices, 4).exp().sum(-1).tolist() == pytest.approx([1, 1])
    assert most_frequent(["", "7", "8", "8", "7"]) == "7"
    assert most_frequent(["", ""]) == ""


def test_what_has_no_vote_says_so(tmp_path):
    for key in ({"sigma": []}, {"sigma": [0.1, 0]}, {"keep": 0}):
        with pytest.raises(ConfigError, match=r"algo\.(sigma|keep)"):
            RandomVote(**key)
    assert "has no vote" in one_line(neuro_inside("train", "algo=random_vote", "task=text", "model=char_gpt", cwd=tmp_path))
    assert "shared_batch" in one_line(neuro_inside("train", "algo=random_vote", "layout=per_example", cwd=tmp_path))
