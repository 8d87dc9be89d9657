"""A run's network leaves its folder: as safetensors, .pt and ONNX, with what it takes; and names the classes of images."""

import json
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from support.facts import read_facts
from support.inside import neuro_inside, one_line, well
from torch import nn
from torch.utils._pytree import tree_flatten

from neuro_cli import load
from neuro_cli.cli.python_calls import train
from neuro_cli.core.errors import UserError
from neuro_cli.export.formats import write_network
from neuro_cli.export.network import Network
from neuro_cli.model.gru_policy import GRUPolicy
from neuro_cli.task.dataset import Dataset
from neuro_cli.task.digits import Digits
from neuro_cli.task.inputs import Inputs
from neuro_cli.task.reinforcement.observations import NormalisedPolicy, ObservationStatistics

TINY = ("generations=2", "population=8", "evaluate.every=1", "threads=1")
TARGET = "model._target_=neuro_cli.model.mnist.MNIST_10K"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "run"
    train(*TINY, folder=folder)
    return folder


@pytest.fixture(scope="module")
def task() -> Digits:
    task = Digits("negative_cross_entropy", 500)
    task.load(input_shape=(1, 28, 28), device=torch.device("cpu"), seed=1, batch_size=8)
    return task


def logits(run: Path, state: dict[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
    model = load(run)
    for parameter in model.parameters():
        parameter.data.zero_()
    model.load_state_dict(state)
    with torch.no_grad():
        return model(inputs)


def test_every_finished_run_has_its_network_by_name(run: Path) -> None:
    state, module = load_file(run / "model.safetensors"), load(run)
    assert list(state) == sorted(module.state_dict())
    assert all(torch.equal(state[name], tensor) for name, tensor in module.state_dict().items())
    facts, summary = read_facts(run / "model.safetensors"), json.loads((run / "summary.json").read_text())
    assert facts["parameters_sha256"] == summary["parameters_sha256"]
    assert facts["metric"] == {"name": "test_accuracy", "better": "higher", "value": summary["test_accuracy"]}
    assert facts["git_revision"] == summary["git_revision"]
    assert facts["inputs"]["classes"] == [str(digit) for digit in range(10)]


@pytest.mark.parametrize("name", ["net.safetensors", "net.pt"])
def test_another_program_reads_the_file(run: Path, tmp_path: Path, name: str) -> None:
    done = neuro_inside("export", str(run), f"file={name}", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    file = tmp_path / name
    state = torch.load(file, weights_only=True) if file.suffix == ".pt" else load_file(file)
    inputs = torch.randn(3, 1, 28, 28)
    with torch.no_grad():
        assert torch.equal(logits(run, state, inputs), load(run)(inputs))
    facts = read_facts(run / "model.safetensors")
    found = read_facts(file) if file.suffix != ".pt" else json.loads(zipfile.ZipFile(file).read("archive/neuro.json"))
    assert {key: found[key] for key in ("inputs", "metric", "generation", "model")} == {
        key: facts[key] for key in ("inputs", "metric", "generation", "model")
    }


@pytest.mark.skipif(not find_spec("onnx") or not find_spec("onnxscript"), reason="without the extra onnx")
def test_onnx_gives_the_same_numbers(run: Path, tmp_path: Path) -> None:
    import onnx
    from onnx.reference import ReferenceEvaluator

    assert neuro_inside("export", str(run), "file=net.onnx", cwd=tmp_path).returncode == 0
    model = onnx.load(tmp_path / "net.onnx")
    onnx.checker.check_model(model)
    assert json.loads(model.metadata_props[0].value)["inputs"]["shape"] == [1, 28, 28]
    for batch in (1, 5):
        inputs = torch.randn(batch, 1, 28, 28)
        (outputs,) = ReferenceEvaluator(model).run(None, {"inputs": inputs.numpy()})
        with torch.no_grad():
            np.testing.assert_allclose(outputs, load(run)(inputs).numpy(), rtol=1e-4, atol=1e-5)


class TwoStates(nn.Module):
    """Policy whose states are a tuple of two."""

    def __init__(self, first: float = 0.0) -> None:
        super().__init__()
        self.cell, self.last, self.first = nn.LSTMCell(3, 5), nn.Linear(5, 2), first

    def reset(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.full((count, 5), self.first), torch.zeros(count, 5)

    def forward(self, x: torch.Tensor, states: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, Any]:
        states = self.cell(x, states)
        return self.last(states[0]), states


class ResetsItself(nn.Linear):
    """Module without a memory, whose method of that name makes its weights again."""

    def reset(self, seed: int) -> torch.Tensor:
        with torch.no_grad():
            self.weight.zero_()
        return self.weight


@pytest.mark.skipif(not find_spec("onnx") or not find_spec("onnxscript"), reason="without the extra onnx")
@pytest.mark.parametrize("made", [lambda: GRUPolicy(3, 2, 5), TwoStates])
@pytest.mark.parametrize("normalised", [False, True])
def test_a_policy_with_a_memory_has_its_states_in_the_graph(
    made: Callable[[], nn.Module], normalised: bool, tmp_path: Path
) -> None:
    from onnx.reference import ReferenceEvaluator

    policy = made()
    if normalised:
        policy = NormalisedPolicy(policy, ObservationStatistics(3), 5.0)
    assert write_network(tmp_path / "net.onnx", Network(policy.eval(), Inputs((3,)), {})) > 0
    graph = ReferenceEvaluator(str(tmp_path / "net.onnx"))
    states, observations = policy.reset(4), torch.randn(6, 4, 3, generator=torch.Generator().manual_seed(1))
    known = [part.numpy() for part in tree_flatten(states)[0]]
    names = ["states"] if len(known) == 1 else ["states_0", "states_1"]
    assert graph.input_names == ["inputs", *names]
    assert graph.output_names == ["outputs", *(f"next_{name}" for name in names)]
    for seen in observations:  # an episode, whose states go from step to step
        outputs, *known = graph.run(None, {"inputs": seen.numpy(), **dict(zip(names, known, strict=True))})
        with torch.no_grad():
            expected, states = policy(seen, states)
        np.testing.assert_allclose(outputs, expected.numpy(), rtol=1e-5, atol=1e-6)
    assert any(part.any() for part in known)


@pytest.mark.skipif(not find_spec("onnx") or not find_spec("onnxscript"), reason="without the extra onnx")
def test_states_that_a_graph_would_begin_otherwise_are_refused_and_another_reset_is_left_alone(tmp_path: Path) -> None:
    from onnx.reference import ReferenceEvaluator

    with pytest.raises(UserError, match="cannot be written as ONNX: its first states are not zeros"):
        write_network(tmp_path / "no.onnx", Network(TwoStates(0.5).eval(), Inputs((3,)), {}))
    layer = ResetsItself(3, 4).eval()
    write_network(tmp_path / "net.onnx", Network(layer, Inputs((3,)), {}))
    (outputs,) = ReferenceEvaluator(str(tmp_path / "net.onnx")).run(None, {"inputs": np.ones((2, 3), np.float32)})
    np.testing.assert_allclose(outputs, layer(torch.ones(2, 3)).detach().numpy(), rtol=1e-5)
    assert layer.weight.any()


class Resized(nn.Module):
    def __init__(self, factor: float, corners: bool = False) -> None:
        super().__init__()
        self.factor, self.corners = factor, corners

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.interpolate(x, scale_factor=self.factor, mode="bilinear", antialias=True, align_corners=self.corners)


class Drawn(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.multinomial(x.flatten(1).softmax(1), self.count)


@pytest.mark.skipif(not find_spec("onnx") or not find_spec("onnxscript"), reason="without the extra onnx")
def test_what_the_exporter_would_leave_out_is_refused(tmp_path: Path) -> None:
    network = Network(nn.AvgPool2d(2, divisor_override=3).eval(), Inputs((1, 4, 4)), {})
    with pytest.raises(UserError, match="loses divisor_override=3 of avg_pool2d"):
        write_network(tmp_path / "net.onnx", network)
    assert not (tmp_path / "net.onnx").exists()
    assert write_network(tmp_path / "net.onnx", Network(nn.AvgPool2d(2).eval(), network.inputs, {})) > 0


@pytest.mark.skipif(not find_spec("onnx") or not find_spec("onnxscript"), reason="without the extra onnx")
@pytest.mark.parametrize(
    ("layer", "refused"),
    [
        (Resized(0.5), None),
        (Resized(0.6), "loses scales_h=0.6 of _upsample_bilinear2d_aa"),
        (Resized(0.5, corners=True), "loses align_corners=True of _upsample_bilinear2d_aa"),
        (Drawn(1), None),
        (Drawn(2), "loses replacement=False of multinomial"),
    ],
)
def test_an_argument_that_is_left_out_and_has_no_effect_is_none(layer: nn.Module, refused: str | None, tmp_path: Path) -> None:
    """A factor that the two sizes have, so that both are one network, and a draw that nothing can follow."""
    network = Network(layer.eval(), Inputs((1, 8, 8)), {})
    if refused is None:
        assert write_network(tmp_path / "net.onnx", network) > 0
        return
    with pytest.raises(UserError, match=refused):
        write_network(tmp_path / "net.onnx", network)


@pytest.mark.skipif(not find_spec("onnx") or not find_spec("onnxscript"), reason="without the extra onnx")
def test_a_smoothed_resize_by_a_factor_of_its_sizes_is_the_network(tmp_path: Path) -> None:
    from onnx.reference import ReferenceEvaluator

    layer, inputs = Resized(0.5).eval(), torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    write_network(tmp_path / "net.onnx", Network(layer, Inputs((1, 8, 8)), {}))
    (made,) = ReferenceEvaluator(str(tmp_path / "net.onnx")).run(None, {"inputs": inputs.numpy()})
    np.testing.assert_allclose(made, layer(inputs).numpy(), atol=1e-6)


def test_without_the_extra_a_line_says_so(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neuro_cli.export.formats.find_spec", lambda name: None)
    assert "net.onnx: needs onnx, onnxscript: pip install" in one_line(
        neuro_inside("export", str(run), "file=net.onnx", cwd=tmp_path)
    )
    assert not (tmp_path / "net.onnx").exists()


def test_an_ensemble_is_one_network_of_all_members(tmp_path: Path) -> None:
    train("algo=ensemble", "algo.size=2", "generations=2", "evaluate.every=2", "threads=1", folder=tmp_path / "run")
    state, module = load_file(tmp_path / "run" / "model.safetensors"), load(tmp_path / "run")
    assert {name.split(".")[1] for name in state} == {"0", "1"}
    assert all(torch.equal(state[name], tensor) for name, tensor in module.state_dict().items())
    assert neuro_inside("export", "run", "file=net.pt", cwd=tmp_path).returncode == 0


def test_the_columns_of_seconds_sigma_and_rate_are_what_the_run_did(run: Path, tmp_path: Path) -> None:
    schedules = ("algo.sigma_schedule.kind=linear", "algo.sigma_schedule.final=0", "algo.lr_schedule.kind=constant")
    metrics = train(*TINY, *schedules, folder=tmp_path / "run").metrics
    assert metrics["sigma"] == [0.05, 0.025]
    assert metrics["rate"] == [0.02, 0.02]
    assert 0 < metrics["seconds"][0] < metrics["elapsed_seconds"][0] < metrics["elapsed_seconds"][1]
    learnt = train(*TINY, "algo=snes", folder=tmp_path / "snes").metrics["sigma"]
    assert learnt[0] == pytest.approx(0.05)
    assert learnt[1] != learnt[0]


# ---- images


def test_a_loaded_network_does_to_images_what_training_did(run: Path, task: Digits) -> None:
    batch, seen = task.test_batch(0), list[torch.Tensor]()
    network, images = load(run), task._test.images.permute(0, 3, 1, 2)[: len(batch.targets)]
    network.register_forward_pre_hook(lambda module, arguments: seen.append(arguments[0]))
    picture = Image.fromarray(images[0, 0].numpy())
    with torch.no_grad():
        for given in (images, batch.inputs, picture, [picture, picture]):
            network(given)
    assert torch.equal(seen[0], seen[1])
    assert torch.equal(seen[2], batch.inputs[:1])
    assert torch.equal(seen[3], batch.inputs[:1].expand(2, -1, -1, -1))
    with pytest.raises(UserError, match="images are 1x27x28: the network takes 1x28x28"):
        network(torch.zeros(2, 1, 27, 28, dtype=torch.uint8))


def test_predict_gives_the_classes_of_the_network(run: Path, task: Digits, tmp_path: Path) -> None:
    images = task._test.images[:3, :, :, 0].numpy()
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    done = neuro_inside("predict", str(run), "0.png", "1.png", "2.png", "top=2", "output=p.json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    with torch.no_grad():
        chances = load(run)(task.test_batch(0).inputs[:3].contiguous()).double().softmax(1)
    for line, row, plain in zip(done.stdout.splitlines(), chances, json.loads((tmp_path / "p.json").read_text()), strict=True):
        first, second = row.argsort(descending=True)[:2].tolist()
        assert line.split() == [str(first), f"{row[first]:.4f}", str(second), f"{row[second]:.4f}", plain["image"]]
        assert plain["classes"][0] == {"class": str(first), "probability": pytest.approx(float(row[first]))}


def test_rows_of_npy_csv_and_parquet_are_predicted_as_the_pictures_are(
    run: Path, task: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = task.test_batch(0).inputs[:3].contiguous()
    np.save(tmp_path / "bytes.npy", task._test.images[:3].permute(0, 3, 1, 2).numpy())
    np.save(tmp_path / "one.npy", inputs[0].numpy())
    names = ",".join(f"p{number}" for number in range(inputs[0].numel()))
    np.savetxt(tmp_path / "named.csv", inputs.flatten(1).numpy(), delimiter=",", header=names, comments="", fmt="%.9g")
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(tmp_path / "named.csv")
    (tmp_path / "rows.parquet").touch()
    monkeypatch.setattr(pandas, "read_parquet", lambda path: frame[: 3 * ("rows" in path)])  # pyarrow is no package of the tests
    done = neuro_inside("predict", str(run), "bytes.npy", "one.npy", "named.csv", "rows.parquet", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.rsplit("  ", 1) for line in done.stdout.splitlines()]
    three = [[f"{name}:{n}" for n in range(3)] for name in ("bytes.npy", "named.csv", "rows.parquet")]
    assert [name for _, name in lines] == [*three[0], "one.npy:0", *three[1], *three[2]]
    said = [answer for answer, _ in lines]
    assert said[:3] == said[4:7] == said[7:]
    assert said[3] == said[0]
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    (tmp_path / "names.csv").write_text("a,b\n")
    (tmp_path / "empty.parquet").touch()
    np.save(tmp_path / "object.npy", np.array([None]), allow_pickle=True)
    for name, reason in (
        ("names.csv", "it has no row"),
        ("empty.parquet", "it has no row"),
        ("bad.csv", "its numbers are 1x2: the network takes rows of "),
        ("object.npy", "cannot be read as numbers"),
    ):
        done = neuro_inside("predict", str(run), name, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith(f"neuro: error: {name}: {reason}")


def test_a_table_is_predicted_by_the_names_of_its_columns(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    numbers = np.random.default_rng(0).normal(size=(60, 2)).astype("float32")
    frame = pandas.DataFrame(numbers, columns=["a", "b"]).assign(town=["Bern", "Rom", "Wien"] * 20, kind=["cat", "dog"] * 30)
    inputs, run = Dataset(frame, frame).read(None).train.images, tmp_path / "run"
    frame.to_csv(tmp_path / "table.csv", index=False, float_format="%.9g")
    made = "task.{0}._target_=neuro_cli.task.adapters.Table", "+task.{0}.path=" + str(tmp_path / "table.csv")
    tables = [text.format(part) for part in ("train", "test") for text in made]
    train(*TINY, "task=dataset", *tables, "model=mlp_policy", "batch_size=8", "algo.sigma=0.5", folder=run)
    with torch.no_grad():
        chances = load(run)(inputs).double().softmax(1)
    frame[["kind", "town", "b", "a"]].to_csv(tmp_path / "other_order.csv", index=False, float_format="%.9g")
    np.savetxt(tmp_path / "in_order.csv", inputs.numpy(), delimiter=",", fmt="%.9g")
    for name in ("other_order.csv", "in_order.csv"):
        done = neuro_inside("predict", str(run), name, "output=said.json", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        said = [row["classes"][0] for row in json.loads((tmp_path / "said.json").read_text())]
        assert [each["class"] for each in said] == [("cat", "dog")[number] for number in chances.argmax(1)]
        assert [each["probability"] for each in said] == pytest.approx(chances.amax(1).tolist(), abs=1e-6)
    frame[["a", "b"]].to_csv(tmp_path / "lacks.csv", index=False)
    frame.assign(town="Oslo").to_csv(tmp_path / "strange.csv", index=False)
    assert one_line(neuro_inside("predict", str(run), "lacks.csv", cwd=tmp_path)) == "lacks.csv: it has no column town"
    strange = "strange.csv: column town has 'Oslo', which it had not in training: Bern, Rom, Wien"
    assert one_line(neuro_inside("predict", str(run), "strange.csv", cwd=tmp_path)) == strange


def test_a_picture_of_another_size_and_mode_is_resized(run: Path, tmp_path: Path) -> None:
    Image.new("RGBA", (50, 31), (10, 200, 30, 255)).save(tmp_path / "big.png")
    done = well(neuro_inside("predict", str(run), "big.png", cwd=tmp_path))
    assert done.stdout.endswith("  big.png\n")


def test_a_small_file_of_a_huge_picture_is_refused(run: Path, tmp_path: Path) -> None:
    Image.new("1", (12_000, 12_000)).save(tmp_path / "bomb.png")
    assert (tmp_path / "bomb.png").stat().st_size < 100_000
    assert "bomb.png: cannot be read as an image: Image size (144000000 pixels)" in one_line(
        neuro_inside("predict", str(run), "bomb.png", cwd=tmp_path)
    )


def test_a_run_of_an_earlier_version_asks_its_data(run: Path, tmp_path: Path, task: Digits) -> None:
    old = tmp_path / "old"
    for path in (path for path in run.rglob("*") if path.is_file() and path.name not in ("inputs.yaml", "model.safetensors")):
        target = old / path.relative_to(run)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    Image.fromarray(task._test.images[0, :, :, 0].numpy()).save(tmp_path / "0.png")
    texts = [neuro_inside("predict", str(folder), "0.png", cwd=tmp_path).stdout for folder in (run, old)]
    assert texts[0] == texts[1] != ""


def test_a_declaration_of_a_stranger_is_refused(run: Path, tmp_path: Path) -> None:
    file = run / ".hydra" / "inputs.yaml"
    content = file.read_text()
    try:
        for change in (
            ("dtype: float32", "dtype: complex"),
            ("- 0.32", "- -0.32"),
            ("shape:\n- 1\n", "shape:\n- 0\n"),
            ("images", "pictures"),
        ):
            assert change[0] in content
            file.write_text(content.replace(*change, 1))
            assert "inputs.yaml: no declaration of inputs: " in one_line(neuro_inside("export", str(run), cwd=tmp_path))
    finally:
        file.write_text(content)


# ---- the best checkpoint


def test_the_best_checkpoint_stays_beside_the_last(tmp_path: Path) -> None:
    keys = ("generations=9", "population=8", "evaluate.every=1", "checkpoint.every=3", "checkpoint.keep=1", "threads=1")
    rough = ("algo.optimizer.lr=0.5", "seed=2")  # up and down
    result = train(*keys, *rough, "checkpoint.best=true", folder=tmp_path / "run")
    accuracies = result.metrics["test_accuracy"]
    best = accuracies.index(max(accuracies)) + 1
    state = json.loads((tmp_path / "run" / "checkpoints" / "state.json").read_text())
    assert [entry["generation"] for entry in state["entries"]] == sorted({best, 9})
    assert best < 9  # else the test shows nothing
    well(neuro_inside("evaluate", "run", "checkpoint=best", "output=s.json", cwd=tmp_path))
    assert json.loads((tmp_path / "s.json").read_text())["test_accuracy"] == max(accuracies)
    assert neuro_inside("export", "run", "checkpoint=best", cwd=tmp_path).returncode == 0
    facts = read_facts(tmp_path / "run" / "model-best.safetensors")
    assert (facts["generation"], facts["metric"]["value"]) == (best, max(accuracies))
    plain = train(*keys, *rough, folder=tmp_path / "plain")
    assert plain.summary["parameters_sha256"] == result.summary["parameters_sha256"]


def test_a_resume_remembers_the_best(tmp_path: Path) -> None:
    keys = ("population=8", "evaluate.every=1", "checkpoint.every=3", "checkpoint.keep=1", "threads=1", "checkpoint.best=true")
    rough = ("algo.optimizer.lr=0.5", "seed=2", "algo.lr_schedule.kind=constant")
    whole = train(*keys, *rough, "generations=9", folder=tmp_path / "whole")
    train(*keys, *rough, "generations=7", folder=tmp_path / "parts")
    assert neuro_inside("resume", "parts", "generations=9", cwd=tmp_path).returncode == 0
    states = [json.loads((tmp_path / name / "checkpoints" / "state.json").read_text())["entries"] for name in ("whole", "parts")]
    kept = [[(entry["generation"], entry.get("best")) for entry in entries] for entries in states]
    assert kept[0] == kept[1]
    assert (
        json.loads((tmp_path / "parts" / "summary.json").read_text())["parameters_sha256"] == whole.summary["parameters_sha256"]
    )
