"""MNIST, Fashion-MNIST and CIFAR-10: read from files made here, and every way in which they can be missing."""

import gzip

import numpy as np
import pytest
import torch
from support.made_data import cifar_files, idx_files, load

from neuro_cli.core.errors import ConfigError
from neuro_cli.task.cifar10 import CIFAR10
from neuro_cli.task.fashion_mnist import FashionMNIST
from neuro_cli.task.images import pixel_statistics
from neuro_cli.task.mnist import MNIST


def options(root, **more):
    return {"root": str(root), "download": False, "fitness": "accuracy", "evaluation_batch": 4, **more}


def make(kind, root, **more):
    if kind is FashionMNIST:
        more.setdefault("system_folder", None)
    return kind(**options(root, **more))


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def check_made_up_idx(task):
    load(task, input_shape=(1, 28, 28))
    files = idx_files()
    images = np.frombuffer(files["train-images-idx3-ubyte"][16:], np.uint8).reshape(30, 1, 28, 28)
    data = task.read(None)
    assert np.array_equal(data.train.images.numpy(), images)
    assert data.test.targets.tolist() == list(range(10))
    assert data.train.targets.dtype == torch.int64
    assert task.evaluation_chunks == 3
    assert task.output_size == 10


@pytest.mark.parametrize("kind", [MNIST, FashionMNIST])
def test_idx_files_are_read(kind, tmp_path):
    write(tmp_path / kind.folder, idx_files())
    check_made_up_idx(make(kind, tmp_path))


def test_the_packed_files_of_debian_are_read_where_root_has_none(tmp_path):
    packed = tmp_path / "packed"
    write(packed, {f"{name}.gz": gzip.compress(content) for name, content in idx_files().items()})
    check_made_up_idx(make(FashionMNIST, tmp_path / "absent", system_folder=str(packed)))

    write(tmp_path / "own" / FashionMNIST.folder, idx_files(train=20))
    own = make(FashionMNIST, tmp_path / "own", system_folder=str(packed))
    assert len(own.read(None).train.targets) == 20


# names of their own: gzip writes the time into the content, and the workers of a run must agree on the names
@pytest.mark.parametrize(
    "content",
    [b"no gzip", gzip.compress(b"no idx"), gzip.compress(b"\0\0\10\1\0\0\0\7abc")],
    ids=["no gzip", "no idx", "cut short"],
)
def test_damaged_packed_files_are_named(tmp_path, content):
    write(tmp_path, {f"{name}.gz": gzip.compress(made) for name, made in idx_files().items()})
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(ConfigError, match=r"^task\.system_folder=.*: t10k-images-idx3-ubyte\.gz: "):
        make(FashionMNIST, tmp_path / "absent", system_folder=str(tmp_path)).read(None)


def test_the_batches_of_cifar10_are_read(tmp_path, monkeypatch):
    first = cifar_files(tmp_path, monkeypatch)
    task = load(make(CIFAR10, tmp_path), input_shape=(3, 32, 32), batch_size=20)
    data = task.read(None)
    assert data.train.images.shape == (20, 3, 32, 32)
    assert np.array_equal(data.train.images[0].numpy(), first)
    assert data.test.targets.tolist() == [0, 9, 3, 1]


def test_a_changed_batch_of_cifar10_is_refused_before_it_is_unpickled(tmp_path, monkeypatch):
    cifar_files(tmp_path, monkeypatch)
    (tmp_path / CIFAR10.folder / "data_batch_3").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(ConfigError, match=r"^task\.root=.*: cifar-10-batches-py there is damaged .*task\.download=true"):
        make(CIFAR10, tmp_path).read(None)


@pytest.mark.parametrize("kind", [MNIST, FashionMNIST, CIFAR10])
def test_missing_data_names_the_root_and_the_remedy(kind, tmp_path):
    text = rf"^task\.root=\S*absent: no {kind.folder} folder with .* there; task\.download=true fetches it$"
    with pytest.raises(ConfigError, match=text):
        load(make(kind, tmp_path / "absent"))


@pytest.mark.parametrize("kind", [MNIST, FashionMNIST, CIFAR10])
def test_a_download_that_fails_is_one_clear_line(kind, tmp_path, monkeypatch):
    # nothing listens on port 9 of this machine
    monkeypatch.setattr(kind.source, "mirrors", ["http://127.0.0.1:9/"], raising=False)
    monkeypatch.setattr(kind.source, "url", "http://127.0.0.1:9/archive.tar.gz", raising=False)
    with pytest.raises(ConfigError, match=rf"^task\.download=true: fetching {kind.name} into .* failed: .+") as caught:
        make(kind, tmp_path, download=True).read(None)
    assert "\n" not in str(caught.value)


def test_a_truncated_idx_file_is_called_damaged(tmp_path):
    files = idx_files()
    files["train-images-idx3-ubyte"] = files["train-images-idx3-ubyte"][:-5]
    write(tmp_path / MNIST.folder, files)
    with pytest.raises(ConfigError, match=r"^task\.root=.*: MNIST/raw there is damaged \(.+\); delete it, and"):
        make(MNIST, tmp_path).read(None)


def test_real_mnist_has_the_published_statistics(shared_data):
    task = load(make(MNIST, shared_data, evaluation_batch=500), batch_size=128)
    data = task.read(None)
    assert (len(data.train.targets), len(data.test.targets), task.evaluation_chunks) == (60_000, 10_000, 20)
    mean, std = pixel_statistics(data.train.images)
    assert (mean[0], std[0]) == pytest.approx((0.1307, 0.3081), abs=1e-4)
    assert task.batch(0, 0, 128).inputs.stride() == (784, 1, 28, 1)


def test_shifted_images_are_parts_of_the_padded_ones_and_come_to_every_place(tmp_path):
    write(tmp_path / MNIST.folder, idx_files(train=30))
    plain, moved = make(MNIST, tmp_path), make(MNIST, tmp_path, shift=2)
    for task in (plain, moved):
        load(task, input_shape=(1, 28, 28))
    places = []
    for generation in range(30):
        before, after = (task.batch(generation, 0, task.batch_size) for task in (plain, moved))
        assert torch.equal(before.targets, after.targets)
        black = moved.normalised(torch.zeros(1, 28, 28, 1, dtype=torch.uint8))[0, 0, 0, 0].item()
        padded = torch.nn.functional.pad(before.inputs, [2] * 4, value=black)
        for image, whole in zip(after.inputs, padded, strict=True):
            fits = [(y, x) for y in range(5) for x in range(5) if torch.equal(image, whole[:, y : y + 28, x : x + 28])]
            assert len(fits) == 1
            places += fits
    assert set(places) == {(y, x) for y in range(5) for x in range(5)}
    assert torch.equal(moved.batch(3, 0, 4).inputs, torch.cat([moved.batch(3, k, k + 1).inputs for k in range(4)]))
    assert torch.equal(plain.test_batch(0).inputs, moved.test_batch(0).inputs)
