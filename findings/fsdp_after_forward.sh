#!/usr/bin/env bash
# After a forward pass an FSDP2 module gives out copies: what is written into them is lost, and an optimizer that is made then trains nothing
#
# Version: torch 2.14.1, FSDP2 (`fully_shard`) on gloo, two processes
# Belief: `module.parameters()` are the module's weights, before and after a pass; an optimizer may be made after a first evaluation.
# Seen: After a pass under `no_grad` the parameters of the outermost FSDP2 module are the gathered ones, plain tensors of full size
#   (before: DTensors). Weights that are doubled then are used by the next passes, while `state_dict` has the old ones; and after the
#   call of `state_dict`, or of `reshard`, they are the old ones for the passes too. An optimizer that is made after such a pass moves
#   nothing in later steps, as one that is made before `fully_shard`. No word in any case. With `reshard_after_forward=True` all of it
#   is right.
# Means: An evaluation before the training (a sanity check, a baseline) leaves a training whose loss never changes; noise on the
#   weights lasts until a checkpoint is written. Make the optimizer and keep the parameters between `fully_shard` and the first pass, or
#   call `reshard()`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7, bias=False), nn.Tanh(), nn.Linear(7, 3, bias=False))


def work(rank, place):
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=2)
    mesh, x = init_device_mesh("cpu", (2,)), torch.ones(8, 5)

    def losses(when, **options):
        module, seen = make(), []
        if when == "before fully_shard":
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        fully_shard(module, mesh=mesh, **options)
        if when == "between":
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        with torch.no_grad():
            module(x)
        if when == "after a pass":
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = (module(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            seen.append(round(loss.item(), 4))
        return seen

    def doubled(**options):
        module = make()
        fully_shard(module, mesh=mesh, **options)
        with torch.no_grad():
            start = module(x).sum().item()
            for weight in module.parameters():
                weight.mul_(2)
            used = module(x).sum().item()
            saved = module.state_dict()["0.weight"].full_tensor() / make()[0].weight
            return abs(used / start - 1) > 0.1, round(saved.mean().item(), 3), abs(module(x).sum().item() / start - 1) > 0.1

    trained = {when: losses(when) for when in ("between", "after a pass", "before fully_shard")}
    trained["after a pass, resharded"] = losses("after a pass", reshard_after_forward=True)
    written, resharded = doubled(), doubled(reshard_after_forward=True)
    if rank == 0:
        for when, seen in trained.items():
            print(f"optimizer made {when}: losses {seen}")
        print("doubled after a pass: used, factor in the state, used after the state was asked for:", written, "with reshard_after_forward:", resharded)
    still = {when: len(set(seen)) == 1 for when, seen in trained.items()}
    dist.barrier()
    as_seen = still == {"between": False, "after a pass": True, "before fully_shard": True, "after a pass, resharded": False}
    os._exit(not (as_seen and written == (True, 1.0, False) and resharded == (True, 2.0, True)))


if __name__ == "__main__":
    mp.spawn(work, (os.path.abspath("store"),), nprocs=2)
EOF
"$folder/venv/bin/python" -W ignore program.py
