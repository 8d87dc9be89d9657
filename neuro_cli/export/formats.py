"""Files of a trained network for other programs: safetensors, PyTorch's .pt, ONNX. neuro does not read the last two.

The ONNX graph of a policy with a memory also takes its states and gives the next ones.

Each has the facts of the network (inputs, classes, metric, revision): safetensors in its header and ONNX in its properties under
``neuro``, a .pt file as ``neuro.json`` in its archive.
"""

import copy
import io
import json
import logging
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.files import save_file
from neuro_cli.core.messages.install import install
from neuro_cli.export.network import Network
from neuro_cli.run_folder.model_file import model_bytes, tensors_of
from neuro_cli.runner.vote import VOTES, Vote, votes_bytes
from neuro_cli.task.inputs import TYPES
from neuro_cli.task.reinforcement.policies import starting_states

NEEDED = ("onnx", "onnxscript")
# arguments that torch's exporter leaves out, by operation and with the value that is written all the same: another network
LEFT_OUT: dict[tuple[str, str], tuple[Any, ...]] = {
    ("aten::avg_pool2d", "divisor_override"): (None,),
    ("aten::avg_pool3d", "divisor_override"): (None,),
    ("aten::cross_entropy_loss", "label_smoothing"): (0.0,),
    ("aten::multinomial", "replacement"): (True,),
    ("aten::_upsample_bilinear2d_aa", "scales_h"): (None,),
    ("aten::_upsample_bilinear2d_aa", "scales_w"): (None,),
    ("aten::_upsample_bicubic2d_aa", "scales_h"): (None,),
    ("aten::_upsample_bicubic2d_aa", "scales_w"): (None,),
    # written, but no runtime has torch's corners with antialias: ONNX Runtime 1.32 is off by the size of the inputs
    ("aten::_upsample_bilinear2d_aa", "align_corners"): (False,),
    ("aten::_upsample_bicubic2d_aa", "align_corners"): (False,),
}
EXAMPLES = 2  # examples in the traced batch; torch.export treats sizes 0 and 1 as fixed


def check_file(file: Path) -> None:
    """Raise UserError for a file of another kind, one that exists, or one whose packages are missing."""
    if file.suffix not in FORMATS:
        raise ConfigError("file", file, f"must end in {', '.join(FORMATS)}, which says the format")
    if file.is_symlink() or file.exists():
        raise ConfigError("file", file, "exists already: choose another name")
    if not file.parent.is_dir():
        raise ConfigError("file", file, f"there is no folder {file.parent}")
    missing = [name for name in NEEDED if file.suffix == ".onnx" and find_spec(name) is None]
    if missing:
        raise ConfigError("file", file, f"needs {', '.join(missing)}: {install('onnx')}")


def write_network(file: Path, network: Network) -> int:
    """Write ``network`` in the format that the name of ``file`` says, and return the number of bytes. Raises UserError."""
    content = FORMATS[file.suffix](network)
    save_file(file, content)
    return len(content)


def _safetensors(network: Network) -> bytes:
    return model_bytes(network.module, network.facts)


def _pt(network: Network) -> bytes:
    """Return the state as ``torch.load(file, weights_only=True)`` reads it."""
    content = io.BytesIO()
    torch.save({name: tensor.clone() for name, tensor in tensors_of(network.module).items()}, content)
    with zipfile.ZipFile(content, "a") as archive:
        folder = archive.namelist()[0].partition("/")[0]
        archive.writestr(f"{folder}/neuro.json", json.dumps(network.facts))
    return content.getvalue()


def _onnx(network: Network) -> bytes:
    """Return the graph with inputs (B, *shape), any B, and outputs; for a policy with a memory with ``states`` (B, ..) too.

    Those that follow are ``next_states``. A tuple of states has ``states_0``, ``states_1`` and so on. Episodes begin with zeros.
    """
    if isinstance(network.module, Vote):
        raise UserError(f"file: a vote of {network.module.count} networks is no graph: .votes, .safetensors or .pt hold it")
    parameter = next((each for each in network.module.parameters() if each.is_floating_point()), None)
    kind = TYPES[network.inputs.dtype]
    example = torch.zeros(EXAMPLES, *network.inputs.shape, dtype=kind)
    if parameter is not None and kind.is_floating_point:
        example = example.to(parameter.dtype)
    states = _first_states(network.module)
    module = network.module if states is None else _WithStates(network.module)
    arguments = (example,) if states is None else (example, states)
    names = [] if states is None else _state_names(states)
    try:
        with _quiet():
            program = torch.onnx.export(
                module, arguments, input_names=["inputs", *names],
                output_names=["outputs", *(f"next_{name}" for name in names)], dynamo=True, verbose=False,
                dynamic_shapes=tree_map(lambda _: {0: torch.export.Dim.DYNAMIC}, arguments),
            )  # fmt: skip
            assert program is not None
            model = program.model_proto
            graph = program.exported_program.graph  # type: ignore[union-attr]
    except Exception as error:  # the exporter raises many kinds of errors for operations that a graph cannot express
        reason = next((line.strip() for line in str(_first_cause(error)).splitlines() if line.strip()), type(error).__name__)
        raise UserError(f"the network cannot be written as ONNX: {reason[:200]}") from error
    for name, argument, value in _left_out(graph):
        said = f"torch's exporter loses {argument}={value} of {name}"
        raise UserError(f"the network cannot be written as ONNX: {said}, and the file would be another network")
    entry = model.metadata_props.add()
    entry.key, entry.value = "neuro", json.dumps(network.facts)
    return model.SerializeToString()


class _WithStates(nn.Module):
    """Policy with a memory, by the signature that an exporter needs: ``*states`` would be a tuple more."""

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, observations: Tensor, states: Any) -> Any:
        return self.policy(observations, states)


def _first_states(module: nn.Module) -> Any:
    """Return the states of ``EXAMPLES`` episodes that begin, None for a module without a memory. Raises UserError."""
    try:
        states = starting_states(copy.deepcopy(module), EXAMPLES)  # a method of that name may change the module
    except UserError:
        return None
    if states is None:
        return None
    if any(part.any() for part in tree_flatten(states)[0]):
        raise UserError("the network cannot be written as ONNX: its first states are not zeros, as the graph's are")
    return states


def _state_names(states: Any) -> list[str]:
    """Return the names of a graph's inputs that are states, in the order of their tree."""
    count = len(tree_flatten(states)[0])
    return [f"states_{number}" for number in range(count)] if count > 1 else ["states"]


def _left_out(graph: torch.fx.Graph) -> Iterator[tuple[str, str, Any]]:
    """Yield operation, argument and value for all that the exporter has not written."""
    for node in graph.nodes:
        if (schema := getattr(node.target, "_schema", None)) is None:
            continue
        for place, argument in enumerate(schema.arguments):
            written = LEFT_OUT.get((schema.name, argument.name))
            default = argument.default_value if argument.has_default_value() else None
            value = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name, default)
            if written is not None and value not in written and not _of_no_effect(node, argument.name, value):
                yield schema.name.removeprefix("aten::"), argument.name, value


def _of_no_effect(node: torch.fx.Node, argument: str, value: Any) -> bool:
    """Return whether ``value`` of an argument that is left out gives what is written: the factor of two sizes, a single draw."""
    if argument == "replacement":
        return bool(node.args[1] == 1)
    if not argument.startswith("scales_"):
        return False
    axis = -2 if argument == "scales_h" else -1
    before, after = (each.meta["val"].shape[axis] for each in (node.args[0], node))  # type: ignore[union-attr]
    return isinstance(before, int) and isinstance(after, int) and before * value == after


def _first_cause(error: BaseException) -> BaseException:
    """Return the error that others were raised from: the exporter's own say that a step failed, and not why."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _votes(network: Network) -> bytes:
    if not isinstance(network.module, Vote):
        raise UserError("file: .votes is for the members of a run with algo=random_vote")
    return votes_bytes(network.module, network.facts)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's report of its steps from the terminal."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


FORMATS: dict[str, Callable[[Network], bytes]] = {
    ".safetensors": _safetensors, ".pt": _pt, ".onnx": _onnx, VOTES: _votes,
}  # fmt: skip
