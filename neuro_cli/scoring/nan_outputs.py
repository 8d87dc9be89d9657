"""Look at the outputs of single members: a fitness can hide that a network diverged.

A simulator that takes an action of NaN and keeps its last value gives the member an ordinary fitness, which may be the best.
"""

import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

HIDDEN = (
    "fitness: member {member} of generation {generation} has outputs of NaN and a finite fitness: what plays or measures it "
    "hides that it diverged; let the fitness be NaN there"
)
COMPILED = "_torchdynamo_orig_callable"  # attribute of functions that torch.compile returns


class NanOutputs:
    """Context in which calls of ``module`` are watched; ``found`` tells afterwards if an output of one had a NaN.

    Infinities are no sign: masked actions have them. Scripted modules take no hooks and are not watched, nor are compiled ones,
    which a hook would compile again.
    """

    def __init__(self, module: nn.Module) -> None:
        self.found, self._module = False, module
        self._seen: Tensor | None = None

    def __enter__(self) -> "NanOutputs":
        module = self._module
        compiler = sys.modules.get("torch._dynamo")
        compiled = compiler is not None and isinstance(module, compiler.OptimizedModule)
        watched = not compiled and module._compiled_call_impl is None and not isinstance(module, torch.jit.ScriptModule)
        self._handle = module.register_forward_hook(self._after) if watched else None
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            self._handle.remove()
        self.found = self._seen is not None and bool(self._seen)

    def _after(self, _: nn.Module, __: Any, outputs: Any) -> None:
        for value in tree_leaves(outputs):
            if type(value) is Tensor and value.layout is torch.strided and value.is_floating_point():
                nan = value.detach().isnan().any()
                self._seen = nan if self._seen is None else self._seen | nan
