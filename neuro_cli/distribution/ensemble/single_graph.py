"""Reference method: one process, all members in one graph, differentiated at once."""

import torch
import torch.nn.functional as F

from neuro_cli.algo.ensemble import JointOutcome
from neuro_cli.core.errors import ConfigError
from neuro_cli.distribution.ensemble.base import EnsembleMethod
from neuro_cli.fabric.base import World


class SingleGraph(EnsembleMethod):
    name = "single_graph"
    needs_mpi = False

    def held(self, size: int, world: World) -> range:
        if world.size > 1:
            allowed = "one graph needs 1 rank; with more choose logits_allreduce, logits_tree or logits_pipelined"
            raise ConfigError("distribution", f"single_graph (on {world.size} ranks)", allowed)
        return super().held(size, world)

    def step(self, iteration: int) -> JointOutcome:
        batch, members = self.job.batch(iteration), list(self.job.members.values())
        with self.job.clock.phase("forward"):
            logits = [member.graph(iteration, batch.inputs) for member in members]
            mean = torch.stack(logits).mean(0)
            loss = F.cross_entropy(mean, batch.targets)
        if not loss.isfinite():
            self.refuse(iteration, [own.detach() for own in logits])
        with self.job.clock.phase("update"):
            loss.backward()
            for member in members:
                member.step(iteration)
        correct = (mean.detach().argmax(1) == batch.targets).double().mean()
        return JointOutcome(float(loss.detach()), float(correct), torch.empty(0, dtype=torch.float32))
