"""Ranks of torch.distributed on CUDA: NCCL with one rank, and two ranks that share a GPU."""

import json

import pytest
import torch
import torch.distributed as dist
from support.inside import well
from support.torch_ranks import run_torchrun

from neuro_cli.fabric.torch_device import DeviceRanks

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def test_nccl_with_one_rank_brings_messages_and_sums():
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        moved = []
        ranks = DeviceRanks(None, 1, lambda *bytes_moved: moved.append(bytes_moved))
        message, values = torch.arange(1001, device="cuda").to(torch.uint8), torch.randn(3, 333, device="cuda")
        (gathered,) = ranks.begin_gather(message, [1001]).wait()
        assert gathered.is_cuda
        assert torch.equal(gathered, message)
        assert torch.equal(ranks.exchanged([message])[0], message)
        assert torch.equal(ranks.summed(values), values)
        assert moved == [(1001, 0), (0, 0), (values.nbytes, values.nbytes)]
    finally:
        dist.destroy_process_group()


def test_two_ranks_that_share_a_gpu_train_the_parameters_of_one(tmp_path):
    words = ("train", "device=cuda:0", "population=8", "batch_size=16", "generations=3", "distribution=chromosome_updates")
    found = []
    for ranks in (1, 2):
        well(run_torchrun(ranks, "-m", "neuro_cli", *words, f"hydra.run.dir=of_{ranks}", cwd=tmp_path))
        found.append(json.loads((tmp_path / f"of_{ranks}" / "summary.json").read_text())["parameters_sha256"])
    assert found[0] == found[1]
    assert "ranks share a GPU, which NCCL refuses" in (tmp_path / "of_2" / "log.txt").read_text()
