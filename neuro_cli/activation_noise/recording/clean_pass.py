"""The clean pass: the centre's network on all examples of a generation, with every call of torch recorded.

A torch function mode sees the calls. One that gets parameters and data of the examples is a layer: its outputs are detached, so
that its autograd graph goes from its outputs to its own parameters and no further. Tensors that are computed from parameters
alone (a transposed, masked or normalised weight) are part of the graph of the layers that use them. A rounded one (ternary
weights) passes its derivative on unchanged: the straight-through estimator (Bengio et al. 2013).

A tensor that scales or shifts a layer's outputs joins the layer where no other call gets the outputs: in
``F.linear(x, weight) * gain + bias`` noise on the result tells how each of the three parameters should change.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from neuro_cli.activation_noise.derivatives.arguments import own_lists, replaced
from neuro_cli.activation_noise.derivatives.backward_graph import BackwardNode, NodeFunction, StepNode, layer_node
from neuro_cli.activation_noise.derivatives.decomposition import decomposed
from neuro_cli.activation_noise.derivatives.outside_torch import ForeignValues
from neuro_cli.activation_noise.derivatives.recurrence import RecurrentNode, earlier_states, scan
from neuro_cli.activation_noise.derivatives.replacements import REPLACEMENTS
from neuro_cli.activation_noise.derivatives.step_functions import ROUNDED, STEP, StraightThrough, is_constant, step_of
from neuro_cli.activation_noise.recording.calls import Call, LayerStep
from neuro_cli.activation_noise.recording.output_mask import record_use
from neuro_cli.activation_noise.recording.replay import calls_behind, replayable
from neuro_cli.core.layout import Place
from neuro_cli.core.machine.threads import AUTOCAST
from neuro_cli.scoring.passes.example_marks import DATA, LAYER, USE, tensors
from neuro_cli.scoring.passes.number_reads import METADATA
from neuro_cli.scoring.passes.operators import Unsupported
from neuro_cli.scoring.passes.torch_bodies import overwrites

# calls that scale or shift a layer's outputs, value by value
LINEAR = frozenset((torch.add, Tensor.add, torch.sub, Tensor.sub, Tensor.__rsub__, torch.mul, Tensor.mul, torch.neg, Tensor.neg))
OPERATORS = {"__iadd__": "add", "__isub__": "sub", "__imul__": "mul", "__itruediv__": "div"}  # calls without a write
DIVIDED = frozenset((torch.div, Tensor.div, torch.true_divide, Tensor.true_divide))
WITHOUT_DERIVATIVE = "torch::autograd::NotImplemented"  # how torch names the graph of a call that has none
WITHOUT_GRAPH = frozenset[Any]((Tensor.numpy, Tensor.__array__, Tensor.__dlpack__))  # refuse a tensor that has a graph


def _memory(tensor: Tensor) -> int:
    """Return the identity of a tensor's memory, which its views share."""
    identity: int = tensor.untyped_storage()._cdata
    return identity


def _overwrites(func: Callable[..., Any], kwargs: dict[str, Any]) -> bool:
    """Return whether a call overwrites its first argument."""
    return bool(kwargs.get("inplace")) or overwrites(func)


def _new_tensor(name: str) -> Callable[..., Any] | None:
    """Return the call that gives a new tensor where the one called ``name`` overwrites its first argument, None for none."""
    plain = OPERATORS.get(name, name[:-1] if name[-2:-1] != "_" else "")
    found = getattr(Tensor, plain, getattr(F, plain, None)) if plain else None
    return found if callable(found) else None


@dataclass
class PassRecord:
    """Record of a pass: its calls in order, the layers among them, and the ``nodes`` and the ``root`` of the backward graph.

    ``smooth``: no step function (``round``, a comparison) has a part in the scores. ``cut``: a call of the backward graph gives a
    tensor without a derivative (``argmax``, ``detach``). ``scores`` (B, T, C) in the backward graph, None where they have no
    derivative themselves. ``result``: output of the pass.
    ``rewritten``: name of a call that gave a new tensor where it overwrites one, None for none; ``stale``: name of a later one
    that reads the old tensor.
    """

    calls: list[Call] = field(default_factory=list)
    steps: list[LayerStep] = field(default_factory=list)
    layers: list[LayerStep] = field(default_factory=list)
    nodes: list[BackwardNode] = field(default_factory=list)
    root: Tensor | None = None
    smooth: bool = True
    cut: bool = False
    scores: Tensor | None = None
    result: Tensor | None = None
    rewritten: str | None = None
    stale: str | None = None

    @property
    def replayable(self) -> bool:
        """Return whether the calls of a pass are independent of its numbers."""
        return replayable(self.calls)

    @property
    def used(self) -> set[int]:
        """Numbers of the calls that the result may depend on, with or without a derivative."""
        if self.result is None or not self.replayable:
            return set(range(len(self.calls)))
        return calls_behind(self.result, self.calls)

    def join_layers(self) -> None:
        """Set the layers: a step joins the one before where no other call gets the outputs of that."""
        for step in self.steps:
            before = None if step.before is None else self.steps[step.before]
            if before is not None and len(before.users) == 1:
                before.joined, step.earlier = True, (*before.earlier, before)
                step.places, step.parameters = [*before.places, *step.places], [*before.parameters, *step.parameters]
        self.layers = [step for step in self.steps if step.places and not step.joined]
        for number, layer in enumerate(self.layers):
            self.calls[layer.call].layer = number

    def release(self) -> None:
        """Drop the derivatives, whose graphs refer to the nodes that hold them: a cycle that keeps the pass in memory."""
        for node in self.nodes:
            node.derivative = None

    @property
    def overwritten(self) -> str | None:
        """Name of a call whose result a later one has overwritten, None if all are intact."""
        for call in self.calls:
            if isinstance(call.result, Tensor) and call.result._version != call.version:
                return getattr(call.func, "__name__", str(call.func))
        return None


class RecordingMode(TorchFunctionMode):
    """Context that writes the calls of a pass to ``record``. ``parameters``: those that evolve with their places, by identity.

    ``foreign``: search for values that leave torch. ``backward``: with a backward graph. ``copy``: later calls may overwrite
    arguments and outputs, so that copies are recorded. Without it calls that overwrite data of the examples give a new tensor
    instead, where torch has such a call.
    """

    def __init__(
        self, parameters: dict[int, tuple[Tensor, Place]], foreign: ForeignValues, copy: bool, backward: bool = False
    ) -> None:
        super().__init__()
        self.record, self._foreign = PassRecord(), foreign
        self._parameters, self._copy, self._backward = parameters, copy, backward
        self._data_memory = set[int]()  # identities of the memory of examples' data; empty without a backward graph
        self._stale = set[int]()  # memory of tensors that were to be overwritten; the record's calls keep them

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in METADATA:
            return func(*args, **kwargs)
        given = tensors([*args, *kwargs.values()])
        if not given:
            result = func(*args, **kwargs)
            if tensors([result]):  # a setting of torch gives none, and each pass sets it for itself
                version = result._version if isinstance(result, Tensor) else 0
                self.record.calls.append(Call(func, result, version, foreign=self._foreign.see_result(func, result)))
            return result
        foreign = self._foreign.find(given)
        of_data = of_weights = False
        for tensor in given:
            if hasattr(tensor, DATA):
                of_data = True
                if self._backward and tensor.layout is torch.strided:
                    self._data_memory.add(_memory(tensor))
            elif tensor.requires_grad:
                of_weights = True
            elif self._backward and tensor.layout is torch.strided and _memory(tensor) in self._data_memory:
                raise Unsupported("a function with a derivative of its own returns its input, which torch does not show")
        written = None
        if not self._copy:
            self._note_stale(func, given)
            if of_data and _overwrites(func, kwargs) and args and isinstance(args[0], Tensor):
                written = args[0]
                # a sum of two types would have the wider one, where the tensor keeps its own
                if all(tensor.dtype == written.dtype for tensor in given if tensor.is_floating_point()):
                    func, kwargs = self._out_of_place(func, kwargs)
        # recorded before the call runs, so that the calls that it consists of come after it, as in a noisy pass
        fixed = {name: own_lists(value) for name, value in kwargs.items()}
        call = Call(func, None, 0, None, None, None, foreign, own_lists(args), fixed, [id(tensor) for tensor in given])
        self.record.calls.append(call)
        if of_data and of_weights:
            inner = None if "out" in kwargs else decomposed(func, args, [hasattr(tensor, DATA) for tensor in given])
            if inner is not None:
                call.decomposed = inner
                with self:
                    return inner(*args, **kwargs)
        # before the call, which may overwrite its arguments and lose their marks
        use = record_use(self.record.steps, func, args, kwargs, given)
        versions = {id(tensor): tensor._version for tensor in given if hasattr(tensor, LAYER)}
        result = self._run(func, args, kwargs, of_data, of_weights)
        if written is not None and not _overwrites(func, kwargs):
            self._note_written(func, written, result)
        if args and isinstance(args[0], Tensor) and overwrites(func):
            self._foreign.see_write(args[0], of_data)
        for tensor in given:
            if versions.get(id(tensor), tensor._version) != tensor._version and (result is not tensor or not of_weights):
                delattr(tensor, LAYER)  # an in-place call: these are no longer the step's outputs
        call.result, call.version = result, result._version if isinstance(result, Tensor) else 0
        if not of_data:
            call.foreign |= self._foreign.see_result(func, result)
            return result
        self._foreign.see_read(func)
        made = tensors([result])
        call.read = not made or any(map(torch.is_autocast_enabled, AUTOCAST))  # contexts of the module's own: no replay has them
        for tensor in made:
            setattr(tensor, USE, use)
            setattr(tensor, DATA, True)
        return result

    def _run(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], of_data: bool, of_weights: bool) -> Any:
        """Run a call: of parameters alone with a graph, of data alone as it is, of both as a step of a layer."""
        if of_weights and not of_data:
            with torch.enable_grad():
                result = func(*args, **kwargs)
                rounded = func in ROUNDED and isinstance(result, Tensor)
                return StraightThrough.apply(args[0], result.detach()) if rounded else result
        if func is scan:
            return self._run_scan(args, of_weights)
        data = _linear_in(func, args, kwargs)
        used = [self._parameters[key] for key in _leaves([*args, *kwargs.values()]) if key in self._parameters]
        before = None if data is None else self._step_before(args[data], used)
        if before is None and not of_weights:
            return self._run_on_data(func, args, kwargs)
        given = [replaced(value, self._detached) for value in args]
        named = {name: replaced(value, self._detached) for name, value in kwargs.items()}
        if before is not None and data is not None:
            # the graph of the step before stays, so that noise on these outputs has a derivative by both steps' parameters
            given[data] = self.record.steps[before].raw
        with torch.enable_grad():
            raw = func(*given, **named)
        if not any(tensor.requires_grad for tensor in tensors([raw])):
            if raw is None and overwrites(func):
                raise Unsupported(f"{func.__name__} writes a parameter into data of the examples: use torch.where or torch.cat")
            return raw  # a shape, a comparison
        if not isinstance(raw, Tensor):
            raise Unsupported(f"{func.__name__} with parameters gives several tensors")
        outputs = raw.detach().clone() if self._copy else raw.detach()
        if before is not None and raw.shape != self.record.steps[before].raw.shape:
            before = None  # broadcast: an output of the step before is in several outputs of this one
        if before is None and not of_weights:
            return self._run_on_data(func, args, kwargs)
        used = _ordered(used, args, kwargs)
        places, parameters = [place for _, place in used], [parameter for parameter, _ in used]
        step = LayerStep(func, given, named, len(self.record.calls) - 1, raw, places, parameters, data, before)
        if self._backward:
            outputs = self._appended_step(step, args, kwargs, of_weights)
        if overwrites(func):  # any holder of the tensor, or of a view, sees the outputs
            with torch.set_grad_enabled(self._backward):
                outputs = args[0].copy_(outputs)
        setattr(outputs, LAYER, len(self.record.steps))
        self.record.steps.append(step)
        return outputs

    def _run_scan(self, args: Sequence[Any], of_weights: bool) -> Tensor:
        """Run all steps of a recurrent layer, as a step whose outputs are the products with the states."""
        cell, x, *parameters = args
        states = scan(cell, self._detached(x), *parameters)
        before = earlier_states(x.detach(), states, len(parameters[0][0]))[..., : len(parameters[0][0])]
        setattr(before, DATA, True)
        given = [before, *parameters]
        with torch.enable_grad():
            products = F.linear(*given)
        used = _ordered([self._parameters[key] for key in _leaves(parameters) if key in self._parameters], args, {})
        places = [place for _, place in used]
        if of_weights:
            step = LayerStep(F.linear, given, {}, len(self.record.calls) - 1, products, places, [each for each, _ in used])
            step.inner = True
            self.record.steps.append(step)
        if not self._backward:
            return states
        names = tuple(place.name for place in places) or (f"call {len(self.record.nodes)}",)
        node = RecurrentNode(cell, [x.detach(), *parameters], products.detach(), states, given, names)
        if of_weights:
            step.node = node
        return self._append(node, x if x.requires_grad else None)

    def _note_stale(self, func: Callable[..., Any], given: Sequence[Tensor]) -> None:
        """Note a call that reads what should have been overwritten, or a view of it."""
        if self._stale and any(_memory(tensor) in self._stale for tensor in given):
            self.record.stale = func.__name__

    def _note_written(self, func: Callable[..., Any], written: Tensor, result: Any) -> None:
        """Note that ``result`` stands for ``written``, which the call would have overwritten."""
        same = isinstance(result, Tensor) and (result.shape, result.dtype) == (written.shape, written.dtype)
        if not same:
            self.record.stale = func.__name__  # the tensor itself would have kept its own
        elif _memory(result) != _memory(written):  # dropout in evaluation mode gives what it gets
            self._stale.add(_memory(written))

    def _out_of_place(self, func: Callable[..., Any], kwargs: dict[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return a call that gives a new tensor for one that overwrites its first argument, and itself where torch has none."""
        name = func.__name__
        other = func if kwargs.get("inplace") else _new_tensor(name)
        if other is None:
            return func, kwargs
        self.record.rewritten = name
        return other, {key: value for key, value in kwargs.items() if key != "inplace"}

    def _detached(self, tensor: Tensor) -> Tensor:
        """Return an argument of a layer, without its graph if it depends on the examples."""
        if not hasattr(tensor, DATA):
            return tensor
        detached = tensor.detach().clone() if self._copy else tensor.detach()
        setattr(detached, DATA, True)
        return detached

    def _run_on_data(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run a call without parameters, as part of the backward graph in a pass that has one."""
        if not self._backward:
            return func(*args, **kwargs)
        if func in WITHOUT_GRAPH:
            return func(*replaced(args, Tensor.detach), **kwargs)
        with torch.set_grad_enabled(func not in ROUNDED):
            result = REPLACEMENTS.get(func, func)(*args, **kwargs)
        if isinstance(result, Tensor) and result.grad_fn is not None and result.grad_fn.name() == WITHOUT_DERIVATIVE:
            result = result.detach()
        if isinstance(result, Tensor) and not result.requires_grad and not is_constant(func):
            self.record.cut |= any(tensor.requires_grad for tensor in tensors([*args, *kwargs.values()]))
        step = step_of(func, args, kwargs, result)
        if step is None:
            return result
        if result.is_floating_point():
            result = self._append(StepNode(result, step), step.x)
        setattr(result, STEP, step)
        return result

    def _appended_step(self, step: LayerStep, args: Sequence[Any], kwargs: dict[str, Any], of_weights: bool) -> Tensor:
        """Return the outputs of a step after its node joins the backward graph."""
        outputs = step.raw.detach()
        if of_weights:
            # a module that the loss uses has parameters without a place: no two of its calls share a model
            names = tuple(place.name for place in step.places) or (f"call {len(self.record.nodes)}",)
            step.node, x = layer_node(step.func, args, kwargs, outputs, names)
        else:  # a number scales or shifts a layer's outputs
            with torch.enable_grad():
                step.node, x = BackwardNode(outputs), step.func(*args, **kwargs)
        return self._append(step.node, x)

    def _append(self, node: BackwardNode, x: Tensor | None) -> Tensor:
        """Return the outputs of ``node`` as autograd's function of its input ``x``, None for a first node."""
        record = self.record
        if record.root is None:
            record.root = torch.zeros((), device=node.outputs.device, requires_grad=True, dtype=torch.float32)
        record.calls[-1].node = len(record.nodes)
        record.nodes.append(node)
        if self._copy and node.inputs is not None:
            node.inputs = node.inputs.clone()
        with torch.enable_grad():
            outputs: Tensor = NodeFunction.apply(node, record.root, x, self._copy)
        return outputs

    def _step_before(self, outputs: Tensor, used: Sequence[tuple[Tensor, Place]]) -> int | None:
        """Return the number of the step with ``outputs`` that a call with parameters ``used`` can join, None for none."""
        number: int | None = getattr(outputs, LAYER, None)
        if number is None:
            return None
        # a parameter of both steps would put the earlier one into this step's own graph
        shared = {place.name for place in self._places_up_to(number)}.intersection(place.name for _, place in used)
        return None if shared else number

    def _places_up_to(self, number: int | None) -> Iterator[Place]:
        """Yield the places of a step and of those before it in the same layer."""
        while number is not None:
            step = self.record.steps[number]
            yield from step.places
            number = step.before


def _linear_in(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> int | None:
    """Return the position of the one argument with data that a call only adds to or multiplies, None for other calls."""
    if kwargs or (func not in LINEAR and func not in DIVIDED):
        return None
    data = [position for position, value in enumerate(args) if isinstance(value, Tensor) and hasattr(value, DATA)]
    return data[0] if len(data) == 1 and (func in LINEAR or data == [0]) else None


def _leaves(given: Iterable[Any]) -> list[int]:
    """Return the identities of the parameters in the graphs of tensors among ``given``, each once."""
    leaves: dict[int, None] = {}
    seen: set[Any] = set()
    for tensor in tensors(given):
        if hasattr(tensor, DATA):
            continue  # here its graph is the backward graph
        if tensor.is_leaf:
            if tensor.requires_grad:
                leaves[id(tensor)] = None
            continue
        todo = [tensor.grad_fn]
        while todo:
            node = todo.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            variable = getattr(node, "variable", None)
            if variable is not None:
                leaves[id(variable)] = None
            todo += [following for following, _ in node.next_functions]
    return list(leaves)


def _ordered(used: list[tuple[Tensor, Place]], args: Sequence[Any], kwargs: dict[str, Any]) -> list[tuple[Tensor, Place]]:
    """Return parameters in the order of the arguments; those that are no argument themselves last, by their place."""
    positions = {id(tensor): position for position, tensor in reversed(list(enumerate(tensors([*args, *kwargs.values()]))))}
    return sorted(used, key=lambda entry: (positions.get(id(entry[0]), len(positions)), entry[1].start))
