"""The device that a rank takes, with made-up numbers of CUDA devices."""

import logging

import pytest
import torch

from neuro_cli.core.errors import ConfigError
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.device import device_of, take_device


@pytest.fixture
def devices(monkeypatch):
    """Sets how many CUDA devices there are; gives the list of those that were made current."""
    current: list[torch.device] = []

    def there(count: int) -> list[torch.device]:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "set_device", current.append)
        return current

    return there


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def rank_of(local_rank: int, local_size: int) -> SingleProcess:
    world = SingleProcess()
    world.local_rank, world.local_size = local_rank, local_size
    return world


@pytest.mark.parametrize(
    ("count", "ranks", "expected"),
    [
        (0, 3, ["cpu", "cpu", "cpu"]),
        (1, 1, ["cuda"]),
        (2, 2, ["cuda:0", "cuda:1"]),
        (2, 5, ["cuda:0", "cuda:1", "cuda:0", "cuda:1", "cuda:0"]),
        (4, 2, ["cuda:0", "cuda:1"]),
    ],
)
def test_auto_is_the_gpu_of_the_local_rank(devices, count, ranks, expected):
    current = devices(count)
    taken = [take_device("auto", rank_of(rank, ranks)) for rank in range(ranks)]
    assert [str(device) for device in taken] == expected
    assert current == [device for device in taken if device.index is not None]  # kernels start on it


@pytest.mark.parametrize(
    ("count", "ranks", "line"),
    [
        (2, 5, "device=auto: 5 ranks share the 2 GPUs of this machine"),
        (1, 2, "device=auto: 2 ranks share the 1 GPU of this machine"),
        (2, 2, None),
        (0, 4, None),
    ],
)
def test_shared_gpus_are_reported(devices, caplog, monkeypatch, count, ranks, line):
    """Rank 0 alone has a log, so a run has one line."""
    monkeypatch.setattr(logging.getLogger("neuro_cli"), "propagate", True)
    devices(count)
    take_device("auto", rank_of(0, ranks))
    records = {id(record): record for record in caplog.records}  # an earlier test may have left a second way to this handler
    assert [record.getMessage() for record in records.values()] == ([] if line is None else [line])


def test_a_gpu_that_the_launcher_gave_to_each_rank_is_not_shared(devices, caplog, monkeypatch):
    """As SLURM's --gpus-per-task=1 does: every rank sees one, another one."""
    monkeypatch.setattr(logging.getLogger("neuro_cli"), "propagate", True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    devices(1)
    assert str(take_device("auto", rank_of(3, 4))) == "cuda"
    assert caplog.messages == []


def test_a_named_device_is_for_every_rank(devices):
    current = devices(3)
    assert [str(take_device("cuda:2", rank_of(rank, 2))) for rank in range(2)] == ["cuda:2", "cuda:2"]
    assert [str(take_device(name, rank_of(1, 2))) for name in ("cuda", "cpu")] == ["cuda", "cpu"]
    assert len(current) == 2
    with pytest.raises(ConfigError, match=r"^device=cuda:3: must be auto, cpu or cuda\[:N\]; 3 CUDA devices here$"):
        device_of("cuda:3")
