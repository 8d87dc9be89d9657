"""When tensors stay on GPUs, and when they cross in the host's memory: by a fake group, without a GPU."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from neuro_cli.core.errors import ConfigError
from neuro_cli.fabric import torch_device
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.fabric.torch_device import device_ranks

GPU, CPU = torch.device("cuda:0"), torch.device("cpu")


class Two(SingleProcess):
    """Rank 0 of two; the other one has the same blocks, or ``other`` in place of this rank's GPU."""

    size = 2
    other: bytes | None = None

    def all_gather(self, block, counts):
        given = self.other is not None and block.size == 64
        return np.concatenate([block, np.frombuffer(self.other.ljust(64), np.uint8) if given else block])


class Fake:
    """Ranks of one process. ``wrong``: what to spoil, or the error of a group that cannot be used."""

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong

    def begin_gather(self, message, counts):
        if "error" in self.wrong:
            raise RuntimeError(self.wrong)
        return SimpleNamespace(wait=lambda: [message + (self.wrong == "messages")])

    def exchanged(self, parts):
        return [parts[0] + (self.wrong == "exchanges")]

    def summed(self, values):
        return values + (self.wrong == "sums")


@pytest.fixture
def trial(monkeypatch, caplog):
    """Return a function that tries fake ranks on the CPU."""
    monkeypatch.setattr(logging.getLogger("neuro_cli"), "propagate", True)
    monkeypatch.setitem(torch_device.BACKENDS, "cpu", "gloo")
    monkeypatch.setattr(torch_device.dist, "new_group", lambda **settings: None)

    def tried(wrong: str):
        fake = Fake(wrong)
        monkeypatch.setattr(torch_device, "DeviceRanks", lambda *arguments: fake)
        return fake, device_ranks(SingleProcess(), CPU, 1.0, lambda *moved: None)

    return tried


def test_ranks_that_share_a_gpu_leave_tensors_to_the_host(monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("neuro_cli"), "propagate", True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="GPU-1"))
    with caplog.at_level(logging.INFO):
        assert device_ranks(Two(), GPU, 1.0, print) is None
    assert set(caplog.messages) == {"ranks share a GPU, which NCCL refuses: sums cross in the host's memory"}
    two = Two()
    two.other = b"GPU-2"
    assert torch_device._one_device_each(two, GPU)


@pytest.mark.parametrize("wrong", ["messages", "exchanges", "sums", "an error of NCCL\nand its traces"])
def test_a_group_that_does_not_bring_the_bytes_of_the_host_is_not_used(trial, wrong, caplog):
    assert trial(wrong)[1] is None
    reason = wrong.splitlines()[0] if "error" in wrong else "its bytes are not those of the host's ranks"
    assert set(caplog.messages) == {f"gloo is not used ({reason}): sums cross in the host's memory"}


def test_a_group_that_does_is_used_unless_switched_off(trial, monkeypatch):
    fake, used = trial("")
    assert used is fake
    monkeypatch.setenv(torch_device.SWITCH, "0")
    assert trial("")[1] is None
    monkeypatch.setenv(torch_device.SWITCH, "no")
    with pytest.raises(ConfigError, match=r"^NEURO_NCCL=no: must be 0 or 1$"):
        trial("")
