"""More trained networks whose weights come in a package, most of them of biology, chemistry and signals: :mod:`zoo_pretrained`.

Files that hold objects are read with the packages' own classes allowed, and nothing else.
"""

import contextlib
import functools
import importlib.util
import io
import sys
import types
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np
import torch
from subjects import Row, Through, folder, images, numbers, plain, tokens
from torch import Tensor, nn


def read(package: str, file: str, classes: Iterable[Any] = ()) -> Any:
    """Contents of a package's file: tensors, plain values and objects of ``classes``."""
    with torch.serialization.safe_globals(list(classes)):
        return torch.load(folder(package) / file, map_location="cpu", weights_only=True)


def alone(package: str, module: str) -> Any:
    """A module of a package without what the package itself imports."""
    name = f"{package}.{module}"
    if package not in sys.modules:
        sys.modules[package] = importlib.util.module_from_spec(importlib.util.find_spec(package))  # type: ignore[arg-type]
    return import_module(name)


# ---- sounds and signals


def beats(streaming: bool) -> nn.Module:
    """Beats and downbeats. ``streaming``: the LSTM goes on from its last state, as the package runs it; else each pass begins."""
    network = alone("BeatNet", "model").BDA(272, 150, 2, "cpu")
    network.load_state_dict(read("BeatNet", "models/model_1_weights.pt"))
    return network if streaming else Through(network, from_silence)


def from_silence(network: Any, x: Tensor) -> Tensor:
    network.hidden, network.cell = x.new_zeros(2, len(x), 150), x.new_zeros(2, len(x), 150)
    return network(x)


def sleep(file: str) -> nn.Module:
    networks = import_module("gssc.networks")
    own = [value for value in vars(networks).values() if isinstance(value, type) and issubclass(value, nn.Module)]
    scalar = np._core.multiarray.scalar
    others = [nn.ModuleDict, (scalar, "numpy.core.multiarray.scalar"), np.dtype, type(np.dtype(np.int64)), type(np.dtype("f8"))]
    return read("gssc", f"nets/{file}", [*own, *others])


def sleep_signals() -> nn.Module:
    return Through(sleep("sig_net_v1.pt"), lambda net, x: net({"eeg": x[:, :1], "eog": x[:, 1:]})[..., 0])


def sleep_context() -> nn.Module:
    network = sleep("gru_net_v1.pt")
    layers = network.gru.num_layers * (1 + network.gru.bidirectional)

    def stages(net: Any, x: Tensor) -> Tensor:
        return net(x.transpose(0, 1), x.new_zeros(layers, len(x), net.gru.hidden_size))[0].transpose(0, 1)

    return Through(network, stages)


# ---- images


def shift_tolerant() -> nn.Module:
    sys.modules.setdefault("torchsummary", types.SimpleNamespace(summary=None))  # type: ignore[arg-type]
    with contextlib.redirect_stdout(io.StringIO()):
        network = import_module("stlpips_pytorch.stlpips").LPIPS(net="alex", variant="shift_tolerant", verbose=False)
    return Through(network, distances)


def lpips() -> nn.Module:
    """The distance's trained weights over a random network, as the trained one is not in the package."""
    return Through(import_module("lpips").LPIPS(net="alex", pnet_rand=True, pnet_tune=True, verbose=False), distances)


def distances(network: Any, x: Tensor) -> Tensor:
    return network(x[:, :3], x[:, 3:]).flatten(1)


# ---- proteins, peptides, molecules, crystals


def antibodies() -> nn.Module:
    loader = alone("anarcii", "inference.model_loader").Loader("antibody", "speed", torch.device("cpu"))

    def numbered(net: Any, x: Tensor) -> Tensor:
        with contextlib.redirect_stdout(io.StringIO()):
            return net(x[:, :40], x[:, 40:])

    return Through(loader.model, numbered)


def folding() -> nn.Module:
    with contextlib.redirect_stdout(io.StringIO()):
        checkpoint = alone("igfold", "utils.checkpoint")
        network = checkpoint.load_model(str(folder("igfold") / "trained_models" / "IgFold" / "igfold_1.safetensors"))
    given = alone("igfold", "model.interface").IgFoldInput
    rows = 12

    def places(net: Any, x: Tensor) -> Tensor:
        features = x[:, : rows * 512].reshape(-1, rows, 512)
        maps = x[:, rows * 512 :].reshape(-1, 8, 8, rows, rows).softmax(-1)
        found = net(given([features], [maps]))
        return torch.cat([found.coords.reshape(len(x), -1), found.prmsd.reshape(len(x), -1)], 1)

    return Through(network, places)


def retention() -> nn.Module:
    network = alone("deeplc", "_architecture").FlexCNNMultitaskModel
    blob = read("deeplc", "package_data/models/multitask_flexcnn_model.pt")
    made = network(n_tasks=blob["n_tasks"], **(blob.get("encoder_kwargs") or {}) | (blob.get("head_kwargs") or {}))
    made.load_state_dict(blob["state_dict"])
    features = int(blob["feature_spec"]["global_dim"])

    def times(net: Any, x: Tensor) -> Tensor:
        atoms, sums, whole, residues = peptide(x, features)
        return net(atoms, sums, whole, residues)[:, :8]

    return Through(made, times)


def peptide(x: Tensor, wide: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    atoms, pairs, letters = x[:, :360].reshape(-1, 60, 6), x[:, 360:540].reshape(-1, 30, 6), x[:, 540:1740].reshape(-1, 60, 20)
    return atoms, pairs, x[:, 1740 : 1740 + wide], letters


def cross_sections() -> nn.Module:
    single, constants = alone("im2deep", "_architectures.im2deep_single"), alone("im2deep", "constants")
    state = read("im2deep", "models/TIMS/IM2DeepUni.ckpt")["state_dict"]
    config = constants.DEFAULT_CONFIG
    made = single.IM2Deep(config, nn.L1Loss())
    made.load_state_dict(state)
    wide = next(part.in_features for part in made.ConvGlobal.modules() if isinstance(part, nn.Linear))
    return Through(made, lambda net, x: net(*peptide(x, wide)))


def docking(kind: str, file: str) -> nn.Module:
    models = alone("gninatorch", "models")
    network = getattr(models, kind)((35 if "2017" in kind else 28, 48, 48, 48))
    state = read("gninatorch", f"weights/{file}")
    network.load_state_dict(of_translated(network, state))
    return network


def of_translated(network: nn.Module, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file of translated layers, by the names of the network, which has them in groups."""
    keys = {name: name.replace(".blocks", "").split(".", 1)[1] for name in network.state_dict()}
    rest = iter([value for key, value in state.items() if key not in keys.values()])
    return {name: state[key] if key in state else next(rest) for name, key in keys.items()}


def potential() -> nn.Module:
    """Energies and forces, the derivatives of an energy that the network itself takes by autograd."""
    sevenn = import_module("sevenn.checkpoint")
    file = folder("sevenn") / "pretrained_potentials/SevenNet_0__11Jul2024/checkpoint_sevennet_0.pth"
    own, kinds = sevenn.torch_load, [type(np.dtype(kind)) for kind in ("f4", "f8", "i4", "i8")]
    array = (np._core.multiarray._reconstruct, "numpy.core.multiarray._reconstruct")
    allowed = [array, np.ndarray, np.dtype, *kinds]
    sevenn.torch_load = lambda path, **named: torch.load(path, **named | {"weights_only": True})
    try:
        with torch.serialization.safe_globals(allowed):
            network = sevenn.SevenNetCheckpoint(file).build_model()
    finally:
        sevenn.torch_load = own
    network.set_is_batch_data(True)
    return Through(network, energies_and_forces)


@functools.cache
def salts() -> list[Any]:
    """Eight rock salts of eight atoms with shifted atoms, as graphs."""
    build, graph = import_module("ase.build"), import_module("sevenn.train.dataload")
    found, drawn = [], np.random.default_rng(7)
    for name, length in (("NaCl", 5.6), ("MgO", 4.2), ("CaO", 4.8), ("LiF", 4.0)) * 2:
        salt = build.bulk(name, "rocksalt", a=length, cubic=True)
        salt.rattle(0.1, rng=drawn)
        found.append(graph.unlabeled_atoms_to_graph(salt, 5.0))
    return found


def energies_and_forces(network: Any, x: Tensor) -> Tensor:
    data = import_module("sevenn.atom_graph_data").AtomGraphData
    loader = import_module("torch_geometric.loader.dataloader").Collater([])
    graphs = [data.from_numpy_dict(dict(salts()[int(n) % 8])) for n in x.flatten().tolist()]
    batch = loader(graphs)
    batch = batch.to(torch.device("cpu"))
    for key, value in list(batch):
        if isinstance(value, Tensor) and value.is_floating_point():
            batch[key] = value.to(next(network.parameters()).dtype)
    with torch.enable_grad():  # forces are derivatives
        found = network(batch)
    forces = found["inferred_force"].reshape(len(graphs), -1)
    return torch.cat([found["inferred_total_energy"].reshape(-1, 1), forces], 1)


NETWORKS: list[Row] = [
    ("BeatNet", "BDA", lambda: beats(False), images(20, 272), plain),
    ("BeatNet", "BDA with its state", lambda: beats(True), lambda count: images(20, 272)(1), plain),
    ("gssc", "signals", sleep_signals, images(2, 2560), plain),
    ("gssc", "context, GRU", sleep_context, images(6, 512), plain),
    ("stlpips-pytorch", "shift-tolerant LPIPS", shift_tolerant, images(6, 64, 64), plain),
    ("lpips", "LPIPS", lpips, images(6, 64, 64), plain),
    ("anarcii", "antibodies", antibodies, lambda count: tokens(70, 24)(count), plain),
    ("igfold", "IgFold", folding, images(12 * 512 + 64 * 144), plain),
    ("deeplc", "FlexCNN", retention, images(1900), plain),
    ("im2deep", "IM2Deep", cross_sections, images(1900), plain),
    ("gninatorch", "Default2017", lambda: docking("Default2017Affinity", "default2017.pt"), images(35, 48, 48, 48), plain),
    ("gninatorch", "Dense", lambda: docking("DenseAffinity", "dense.pt"), images(28, 48, 48, 48), plain),
    ("sevenn", "SevenNet-0", potential, numbers, plain),
]
# networks that create float32 in their passes
SINGLE = ("BDA with its state", "FlexCNN", "SevenNet-0", "IgFold")
