"""``neuro apply``: model from its base and a portable ledger, without task, data or cluster."""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from neuro_cli.algo.seed_steps import SeedSteps
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.cores import usable_cores
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.core.seeds import model_seed, seeded
from neuro_cli.evolve.identity import AVERAGE, BASE, BASE_KEY, INITIAL
from neuro_cli.evolve.ledger.portable import SUFFIX, PortableLedger, read_portable
from neuro_cli.evolve.ledger.record import decoded
from neuro_cli.evolve.training.model import frozen_tensors, noise_of, tensors_sha256
from neuro_cli.evolve.training.tuned import check_place, evolved, kind_of, said, write
from neuro_cli.factory.instantiate import make
from neuro_cli.factory.trust import refuse_untrusted
from neuro_cli.run_folder.model_file import left_out
from neuro_cli.run_folder.summary import parameters_sha256
from neuro_cli.sampler.base import Sampler


def apply_ledger(file: Path, model: Path, place: Path | None, trust: list[str]) -> str:
    """Write the model that the ledger ``file`` makes of the base ``model``, and return what was written. Raises UserError.

    ``place``: of the result; None: named like the ledger.
    """
    if not model.exists():
        raise UserError(f"{model}: there is no such file or folder")
    saved = read_portable(file)
    refuse_untrusted({"model": saved.model, "sampler": saved.sampler}, trust)
    base = model if BASE_KEY in saved.model else None
    place = place or file.with_suffix(kind_of(base))
    check_place("file", place, base)
    if place.suffix == SUFFIX:
        raise ConfigError("file", place, "is the name of a ledger")
    module = _module(saved, model)
    layout = ParameterLayout(module, saved.channels_last)
    _compare(saved, module, layout, model)
    solution = _replayed(saved, layout, layout.flatten(module))
    digest = parameters_sha256(solution)
    if digest != saved.parameters_sha256:
        raise UserError(
            f"{file}: its records lead to parameters {digest} here, to {saved.parameters_sha256} where it was written"
        )
    write(place, base, module, evolved(layout, solution))
    return said(place, saved.ledger.next, digest, saved.ledger.head)


def _module(saved: PortableLedger, model: Path) -> nn.Module:
    """Return the network with the parameters of ``model``: the base, or a safetensors file of the network. Raises UserError."""
    if BASE_KEY in saved.model:
        module: nn.Module = make({"model": {**saved.model, BASE_KEY: str(model)}}, "model", nn.Module)
        return module
    with seeded(model_seed(saved.identity["seed"])):
        module = make({"model": saved.model}, "model", nn.Module)
    try:
        module.load_state_dict(left_out(module) | load_file(model))
    except (SafetensorError, OSError, RuntimeError) as error:  # another kind of file, a folder, or other tensors
        raise UserError(f"{model}: no safetensors of this ledger's network: {' '.join(str(error).split())[:160]}") from error
    return module


def _compare(saved: PortableLedger, module: nn.Module, layout: ParameterLayout, model: Path) -> None:
    """Raise UserError, with both hashes, where ``model`` is not the base of the ledger."""
    frozen = frozen_tensors(module, layout)
    here = {BASE: tensors_sha256(frozen) if frozen else None, INITIAL: parameters_sha256(layout.flatten(module))}
    for name, digest in here.items():
        if digest != saved.identity.get(name):
            raise UserError(
                f"{model}: not the base of this ledger: its {name} is {digest}, the ledger's {saved.identity.get(name)}"
            )


def _replayed(saved: PortableLedger, layout: ParameterLayout, centre: Tensor) -> Tensor:
    """Return the solution (M,) after all records, as a peer computes it from the initial ``centre`` (M,)."""
    settings: dict[str, Any] = saved.identity
    population = settings["population"]
    steps = SeedSteps(settings["algo.sigma"], settings.get(AVERAGE, 0.0))
    steps.start(centre, layout, population, settings["seed"])
    threads = Threads(usable_cores())
    try:
        sampler: Sampler = make({"sampler": saved.sampler}, "sampler", Sampler)
        sampler.check(population)
        sampler.bind(Noise(settings["seed"], layout.size, torch.device("cpu"), threads), population, layout)
        for content in saved.ledger.records:
            steps.step([noise_of(sampler, step, layout.size) for step in decoded(content).steps], saved.ledger.head)
    finally:
        threads.close()
    return steps.solution
