"""Base of the two forward passes for many members: the module that they replace, their inputs and outputs.

Legend: S sides, D directions, e examples, n = S D e rows.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from neuro_cli.core.layout import ParameterLayout
from neuro_cli.sampler.base import Perturbation
from neuro_cli.scoring.passes.example_marks import tensors
from neuro_cli.scoring.passes.later import Later
from neuro_cli.scoring.passes.member_dimension import unfused
from neuro_cli.scoring.passes.number_reads import METADATA, name_of
from neuro_cli.scoring.passes.operators import Unsupported
from neuro_cli.scoring.passes.restore import kept

log = logging.getLogger(__name__)


@contextmanager
def answered_by(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Return a context in which ``module`` answers by another function; its hooks stay."""
    # the table itself: a scripted module lets no attribute be set
    own = vars(module).get("forward")
    vars(module)["forward"] = forward
    try:
        yield
    finally:
        vars(module).pop("forward", None)
        if own is not None:
            vars(module)["forward"] = own


class CentreParameter(nn.Parameter):
    """Evolved parameter without numbers, since the centre's are no member's: any use raises Unsupported.

    Functions that torch does not announce to a class (``torch.tensor``, scripted ones) meet it where they ask for its numbers.
    """

    place: str  # its name
    refused: list[str]  # reasons: the code around may catch the error

    @classmethod
    def of(cls, parameter: nn.Parameter, place: str, refused: list[str]) -> "CentreParameter":
        """Return one with the form and the attributes of ``parameter``."""
        result: CentreParameter = Tensor._make_wrapper_subclass(
            cls, parameter.shape, parameter.stride(), dtype=parameter.dtype, device=parameter.device,
            requires_grad=parameter.requires_grad,
        )  # fmt: skip
        torch._C._set_throw_on_mutable_data_ptr(result)
        vars(result).update(vars(parameter), place=place, refused=refused)
        return result

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, name = kwargs or {}, name_of(func)
        if func in METADATA or name == "__get__":  # nothing else runs: it might write to the centre
            with torch._C.DisableTorchFunctionSubclass():
                made = func(*args, **kwargs)
            if not tensors([made]):  # a shape, a device
                return made
        raise cls._refusal(name, args, kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise cls._refusal(name_of(func), args, kwargs or {})

    @classmethod
    def _refusal(cls, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Unsupported:
        used = next(value for value in tensors([*args, *kwargs.values()]) if isinstance(value, cls))
        used.refused.append(f"{name} uses parameter {used.place} outside of the module's own forward pass")
        return Unsupported(used.refused[-1])


@contextmanager
def without_numbers(evolved: dict[str, nn.Parameter], refused: list[str]) -> Iterator[None]:
    """Return a context in which parameters, by name, are CentreParameters that note in ``refused`` who uses them.

    Raises RuntimeError where torch holds one of them itself: a scripted module, a view that lives on.
    """
    with ExitStack() as left:
        for name, parameter in evolved.items():
            centre = CentreParameter.of(parameter, name, refused)
            torch.utils.swap_tensors(parameter, centre)  # every holder of the parameter now has the other one
            left.callback(torch.utils.swap_tensors, parameter, centre)
        yield


class ManyForward(TorchFunctionMode, ABC):
    """Context in which ``module`` answers n rows of input as the members of ``perturbation`` would.

    Input of n / S rows is common to all sides. The module's state is restored afterwards. With ``careful`` false, for a module
    that was seen to keep no state, nothing is restored and tensors are not followed, which would cost as much as a small pass.
    Then an operation that could read numbers raises NeedsCare.
    """

    def __init__(self, module: nn.Module, layout: ParameterLayout, perturbation: Perturbation, careful: bool = True) -> None:
        super().__init__()
        self._layout = layout
        self._module, self._rows, self._careful = module, perturbation.rows, careful
        self._one_side = self._rows.count // len(self._rows.scales)
        self._forward = module.forward
        self._later = Later(perturbation)
        self._inside = False  # the module's own forward pass

    def __enter__(self) -> Any:
        self._left = ExitStack()
        self._left.enter_context(unfused())
        if self._careful:
            self._left.enter_context(kept(self._module))
        self._left.enter_context(answered_by(self._module, self._answer))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._left.close()

    def watch(self) -> None:
        """Let a trial see who reads the outcome of a layer before it is computed."""
        self._later.watched = True

    def _called(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Return what the module's own forward pass gives."""
        self._later.forget()
        made = self._forward(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            self._later.finish()
        return made

    def _answer(self, *args: Any, **kwargs: Any) -> Any:
        if self._inside:  # the module calls itself
            return self._forward(*args, **kwargs)
        self._inside = True
        try:
            return self._answered(args, kwargs)
        finally:
            self._inside = False

    @contextmanager
    def left(self) -> Iterator[None]:
        """Run code that has one member's outputs within the context: torch's functions are not followed, but for parameters.

        Such code costs what it costs by itself. Raises Unsupported after code that used a parameter, even if it caught the error.
        """
        parameters, refused = dict(self._module.named_parameters()), list[str]()
        evolved: dict[str, Any] = {place.name: parameters[place.name] for place in self._layout.places}
        with ExitStack() as context:
            try:
                if all(type(parameter) is nn.Parameter for parameter in evolved.values()):
                    context.enter_context(without_numbers(evolved, refused))
                    TorchFunctionMode.__exit__(self, None, None, None)
                    context.callback(TorchFunctionMode.__enter__, self)
            except RuntimeError as error:  # all functions are followed, as with parameters of a class of their own
                log.info("functions of a closure are followed: %s", error)
            yield
        if refused:
            raise Unsupported(refused[0])

    @abstractmethod
    def _answered(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return outputs of all members, in place of the module's own. Raises Unsupported, and whatever the module raises."""

    def _has_rows(self, x: Any) -> bool:
        """Return whether ``x`` has the rows of all members, or those of one side."""
        return isinstance(x, Tensor) and x.dim() > 0 and x.shape[0] in (self._rows.count, self._one_side)

    def _both_sides(self, x: Tensor) -> Tensor:
        """Return rows of all sides, from those that the sides have in common where ``x`` is that.

        A module may have folded points into the batch of all sides. Raises Unsupported for other rows.
        """
        count, rows = self._rows.count, x.shape[0]
        if rows == self._one_side and rows != count:
            return torch.cat([x] * len(self._rows.scales))
        if not rows or rows % count:
            raise Unsupported(f"{rows} rows for {count} examples")
        return x
