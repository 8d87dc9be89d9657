"""Refusal of passes in which a copy of a module computes with the parameters of the original, or of another copy.

``copy.deepcopy`` leaves what a module does not hold as it is: a class or a table in a global variable, a cache of a function.
What finds the original there, or the first member, computes with its numbers, the same for every member.
"""

import logging
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar
from weakref import ref

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from neuro_cli.core.errors import UserError
from neuro_cli.core.module.copies import COMPUTED, COPY, attributes_of, originals, source_of, state_of
from neuro_cli.core.seeds import Generators

T = TypeVar("T")
log = logging.getLogger(__name__)

INSIDE = (
    "model: {user} uses parameter {name} of the model itself or of another member, or a value computed from it, where a member "
    "has its own: a global object or a cache holds it; use self there, or create it in a function that is given the model"
)
ALONE = "{who}: {user} uses parameter {name} of the model itself, and nothing uses those of the module that {who} is given"
BOTH = "{who}: {user} uses parameter {name} of the model itself: it counts as a constant, the same for all members"
NOTHING = "{who}: its result is the same with other parameters of the module that it is given: all members may be alike"
EARLIER = "model: {user} uses what was computed from parameter {name} before this pass: it is the same for all members"
EQUAL = "model: {user} uses numbers that lie outside of the module and equal parameter {name}: they are the same for all members"
CONSTANT = "neuro_constant"  # attribute of what a pass computes from no tensor
# operations that read none of the numbers that they write over
OVERWRITES = {f"{name}_" for name in ("copy", "fill", "zero", "set", "normal", "uniform", "random", "bernoulli", "exponential")}
TURNED = -1.5  # factor of the parameters with which a pass is tried that seems to use none of them
FOREIGN = ("torch.", "neuro_cli.", "functools", "contextlib")


class NotItsOwnError(UserError):
    """The pass of a member computes with numbers of the module that it was copied from."""


class OwnNumbers(TorchDispatchMode):
    """Context that raises NotItsOwnError where an operation in a pass of ``module``, a copy, gets a parameter of another module.

    Such a module is an original that it was copied from, or another copy: a cache that the first member fills has its numbers.
    What an operation computes from parameters is marked, so that the cache may hold that. A tensor has one mark with all its
    views. Shapes are no numbers, and an operation that writes over numbers does not read them.

    Any operation does that counts as one in a pass of ``module`` with ``always``; else operations that no part of it calls are
    reported in the end: their caller may compare with the original. Constants, buffers and frozen parameters are shared.
    """

    supports_higher_order_operators = True

    def __init__(self, module: nn.Module, always: bool = False, who: str = "fitness") -> None:
        super().__init__()
        self._who, self._always, self._parts = who, always, set(map(id, module.modules()))
        self._given: dict[int, str] = {}  # names of the originals' parameters, by identity
        self._places: dict[int, Tensor] = {}  # their numbers, held so that no other tensor gets this memory
        spans = list[tuple[int, int, str]]()
        with torch._C.DisableTorchFunction():  # modes around may put other tensors in place of parameters
            evolved = [each for each in module.parameters() if each.requires_grad and each.layout is torch.strided]
            own = {each.data_ptr() for each in evolved}
            self._own = {_room(each): vars(each).get(COPY) for each in evolved}
            self._copies = {vars(each)[COPY][0] for each in module.parameters() if COPY in vars(each)}
            for original in originals(module):
                for name, parameter in original.named_parameters():
                    if parameter.requires_grad and parameter.numel():
                        self._given[id(parameter)] = name
                        self._places[id(parameter)] = parameter.detach()
                        if parameter.data_ptr() not in own:  # the centre of a large network lies in the original's memory
                            spans.append((*_span(parameter), name))
            self._alike = self._copied_numbers(module)
        self._begins = [begin for begin, _, _ in sorted(spans)]
        self._reach = list(accumulate(((end, name) for _, end, name in sorted(spans)), max))  # the furthest end up to each
        self._uses_own = False
        self.refused: NotItsOwnError | None = None
        self._outside: tuple[str, str, str] | None = None  # user, message, parameter
        self._earlier: tuple[str, str, str] | None = None

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: else torch imports its compiler for this class, which takes seconds and 150 MB."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        is_view = getattr(func, "is_view", False)  # torch.cond and its kind have no schema
        with torch._C.DisableTorchFunction():
            values = [] if _reads_shapes(func) else [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
            written = _written(func, args, kwargs or {})
            if values and written and self._given_name(values[0]) is not None:
                # the script writes a member's numbers there
                self._given, self._begins, self._alike, self._outside = {}, [], {}, None
            for value in values:
                self._look(func, value, not is_view and id(value) not in written)
            marks = [mark for value in values if not written.get(id(value)) and (mark := _mark(value))]
            constant = all(CONSTANT in vars(value) for value in values)
        results = func(*args, **(kwargs or {}))
        own = next((mark for mark in marks if mark[0] in self._copies), None)
        with torch._C.DisableTorchFunction():
            for result in (*tree_leaves(results), *(value for value in values if id(value) in written)):
                if isinstance(result, Tensor):
                    kept = marks[0] if is_view and marks else _mark(result) if written.get(id(result)) is False else None
                    _set(_base(result), COPY, own if kept is None or kept[0] in self._copies else kept)
                    _set(result, CONSTANT, constant or None)
        return results

    def _look(self, func: Any, value: Tensor, reads: bool) -> None:
        """Note a use of the module's own parameters, and refuse or note one of another module's."""
        name = self._given_name(value)
        given = name is not None
        if not given:
            if (room := _room(value)) in self._own:
                self._uses_own = True
                _set(_base(value), COPY, self._own[room])
                return
            looks = not self._earlier and CONSTANT not in vars(value)
            if looks and (earlier := self._source(value)) and (self._always or self._is_inside()):
                self._earlier = _user(func), *earlier
            copy, name = _mark(value) or (None, None)
            if not reads or copy is None or copy in self._copies:
                return
        if self._always or self._is_inside():
            self.refused = NotItsOwnError(INSIDE.format(user=_user(func), name=name))
            raise self.refused
        if given:
            self._outside = self._outside or (_user(func), BOTH, str(name))

    def _copied_numbers(self, module: nn.Module) -> dict[torch.Size, list[tuple[str, Tensor]]]:
        """Return the originals' parameters, by shape, that a tensor outside of ``module`` can be told to be a copy of.

        Not those whose numbers are all one, or are the numbers of something that the module holds.
        """
        found: dict[torch.Size, list[tuple[str, Tensor]]] = {}
        for key, name in self._given.items():
            numbers = self._places[key]
            if _room(numbers) and numbers.is_floating_point() and bool(numbers.min() < numbers.max()):
                found.setdefault(numbers.shape, []).append((name, numbers))
        for held in (*state_of(module), *(each for _, each in attributes_of(module))) if found else ():
            if held.shape in found:
                numbers = torch.as_tensor(held).detach()
                found[held.shape] = [each for each in found[held.shape] if not _equal(each[1], numbers)]
        return found

    def _source(self, value: Tensor) -> tuple[str, str] | None:
        """Return the message on ``value``, and the name of the original's parameter that it was computed or copied from."""
        computed = vars(value).get(COMPUTED) or source_of(value, self._given)
        if computed:
            return EARLIER, computed
        alike = (name for name, numbers in self._alike.get(value.shape, ()) if _equal(numbers, value.detach()))
        return next(((EQUAL, name) for name in alike), None)

    def _given_name(self, value: Tensor) -> str | None:
        """Return the name of the original's parameter that ``value`` is, or lies in the memory of."""
        name = self._given.get(id(value))
        if name is not None:
            return name if value.data_ptr() == self._places[id(value)].data_ptr() else None  # the script gave it other numbers
        if not self._begins or not _room(value):
            return None
        begin, end = _span(value)
        before = bisect_left(self._begins, end)
        return self._reach[before - 1][1] if before and self._reach[before - 1][0] > begin else None

    def _is_inside(self) -> bool:
        """Return whether a part of the module is among the callers."""
        return any(id(caller.f_locals.get("self")) in self._parts for caller in _callers())

    def end(self, depends: Callable[[], bool | None]) -> None:
        """Raise NotItsOwnError, also where the code around caught it. Warn of a use outside of passes.

        ``depends``: whether the result is another with other parameters, as another thread or process may compute with them; None
        where that cannot be tried.
        """
        if self.refused is not None:
            raise self.refused
        tried = True if self._uses_own else depends()
        if self._outside is not None and not tried:
            user, _, name = self._outside
            raise NotItsOwnError(ALONE.format(user=user, name=name, who=self._who))
        if tried is False:
            log.warning("%s", NOTHING.format(who=self._who))
        for found in (self._earlier, self._outside):
            if found is not None:
                log.warning("%s", found[1].format(user=found[0], name=found[2], who=self._who))


def with_own_numbers(module: nn.Module, run: Callable[[], T], always: bool = False, who: str = "fitness") -> T:
    """Return what ``run`` does with ``module``, a copy. Raises NotItsOwnError where that computes with an original's numbers.

    Costs some microseconds an operation, so it is for one pass. Code that does not run in the context runs without.
    """
    watch, before = _watch_of(module, always, who), Generators()
    result = _guarded(watch, run, before)
    watch.end(lambda: _depends(module, run, before, result))
    return result


def marked(module: nn.Module, run: Callable[[], T]) -> T:
    """Return what ``run`` does with ``module``, a copy, and mark what it computes from parameters for later guards."""
    return _guarded(_watch_of(module, False, "fitness"), run, Generators())


def _guarded(watch: OwnNumbers, run: Callable[[], T], before: Generators) -> T:
    try:
        with watch:
            return run()
    except Exception:  # the module's own error, or torch's in this context
        if watch.refused is not None:
            raise watch.refused from None
    before.restore()
    return run()


def _depends(module: nn.Module, run: Callable[[], T], before: Generators, result: T) -> bool | None:
    """Return whether ``run`` gives another ``result`` while ``module`` has other parameters, None where that cannot be tried."""
    kept = [(parameter.data, parameter.detach().clone()) for parameter in module.parameters() if parameter.requires_grad]
    after = Generators()
    try:
        for data, _ in kept:
            data.mul_(TURNED)
        before.restore()
        return not _same(result, run())
    except Exception:  # any kind: the module's own, or of memory that must not be written
        return None
    finally:
        after.restore()
        for data, numbers in kept:
            if not torch.equal(data, numbers):
                data.copy_(numbers)


def _same(one: Any, other: Any) -> bool:
    return all(np.array_equal(*pair, equal_nan=True) for pair in zip(_arrays(one), _arrays(other), strict=True))


def _arrays(tree: Any) -> list[np.ndarray]:
    leaves = [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor | np.ndarray | int | float)]
    return [np.asarray(leaf.detach().double().cpu() if isinstance(leaf, Tensor) else leaf, np.float64) for leaf in leaves]


def _watch_of(module: nn.Module, always: bool, who: str) -> OwnNumbers:
    if "torch._dynamo" in sys.modules and not hasattr(OwnNumbers.__torch_dispatch__, "__wrapped__"):
        OwnNumbers.__torch_dispatch__ = torch._disable_dynamo(OwnNumbers.__torch_dispatch__)  # type: ignore[method-assign]
    return OwnNumbers(module, always, who)


def watched(module: nn.Module) -> nn.Module:
    """Let passes of ``module``, a copy that is given to a script, raise NotItsOwnError; returns it. Its copies do not."""
    if isinstance(module, torch.jit.ScriptModule):  # its passes are not Python's
        return module
    watch, given = _watch_of(module, True, "fitness"), ref(module)

    def passed(*args: Any, **kwargs: Any) -> Any:
        call = partial(given()._call_impl, *args, **kwargs)  # type: ignore[union-attr]
        return _guarded(watch, call, Generators())

    vars(module)["_compiled_call_impl"] = passed  # what torch calls in place of _call_impl, and leaves out of copies
    return module


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[int, bool]:
    """Return the identities of the tensors that an operation writes to, with whether it reads none of their numbers."""
    schema = getattr(func, "_schema", None)
    if not getattr(schema, "is_mutable", False):
        return {}
    arguments = schema.arguments  # type: ignore[union-attr]
    given = dict(zip((argument.name for argument in arguments), args, strict=False)) | dict(kwargs)
    writes = [each for each in arguments if each.alias_info is not None and each.alias_info.is_write]
    overwrites = _name(func) in OVERWRITES
    return {id(leaf): overwrites or each.is_out for each in writes for leaf in tree_leaves(given.get(each.name))}


def _name(func: Any) -> str:
    return str(getattr(func, "overloadpacket", func).__name__)


def _reads_shapes(func: Any) -> bool:
    """Return whether an operation reads no numbers of its tensors: ``zeros_like``, ``new_ones`` and their kind."""
    name = _name(func).strip("_")
    return name.endswith("_like") or name.startswith("new_")


def _base(value: Tensor) -> Tensor:
    """Return the tensor that ``value`` is a view of, which has the mark of all its views, else ``value``."""
    return value if value._base is None else value._base


def _mark(value: Tensor) -> tuple[int, str] | None:
    return vars(_base(value)).get(COPY)


def _set(value: Tensor, attribute: str, given: Any) -> None:
    """Set an attribute of a tensor, or take it away where ``given`` is None."""
    if given is not None:
        setattr(value, attribute, given)
    else:
        vars(value).pop(attribute, None)


def _callers() -> Iterator[FrameType]:
    frame = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back  # type: ignore[assignment]


def _user(func: Any) -> str:
    """Return the function of a script that runs an operation, and its line; the operation's name where there is none."""
    for frame in _callers():
        if not f"{frame.f_globals.get('__name__')}.".startswith(FOREIGN):
            return f"{frame.f_code.co_qualname} ({Path(frame.f_code.co_filename).name}, line {frame.f_lineno})"
    return _name(func)


def _equal(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors of a shape have the same numbers; torch reads no memory that one does not have."""
    comparable = one.dtype == other.dtype and one.device == other.device and _room(one) and _room(other)
    return bool(comparable and torch.equal(one, other))


def _room(tensor: Tensor) -> int:
    """Return the address of a tensor's memory, 0 for one that has none of its own."""
    if tensor.layout is not torch.strided or tensor.is_nested:
        return 0
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:  # a tensor of a map or of a subclass without storage
        return 0


def _span(tensor: Tensor) -> tuple[int, int]:
    """Return the address of a tensor's first byte, and the one behind its last."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else -1
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()
