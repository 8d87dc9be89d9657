"""Accuracy of twenty networks of timm, torchvision and transformers by ``neuro.ForwardGradient`` and by back-propagation.

    python scripts/twenty_networks.py --seconds 60 --csv build/twenty_networks.csv     # needs timm, torchvision, transformers
    python scripts/twenty_networks.py --only timm_convmixer hf_bert --steps 20

The same random initial weights for both ways; digits of scikit-learn, 1,297 for training and 500 for the test. Images are
resized to 32x32 with three channels; language models read the 64 pixels as tokens. Adam with a rate of 0.0003 in both ways.
A row has a network, its parameters, then accuracy, steps and seconds of each of ``--ways``: back-propagation, and estimates
by ``correction`` auto and never. Seconds are those of the processor, with one thread, trials included.
"""

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

import neuro_cli as neuro

TEST = 500
WAYS = ("backward", "auto", "never")


def losses(outputs: Any, targets: Tensor) -> Tensor:
    """Return the cross-entropy of each example."""
    return F.cross_entropy(logits(outputs), targets, reduction="none")


def logits(outputs: Any) -> Tensor:
    """Return the logits of a model of torch or of transformers."""
    found: Tensor = outputs if isinstance(outputs, Tensor) else outputs["logits"]
    return found


def timm_model(name: str, **options: Any) -> Callable[[], nn.Module]:
    """Return a function that creates a model of timm."""

    def make() -> nn.Module:
        import timm

        model: nn.Module = timm.create_model(name, num_classes=10, **options)
        return model

    return make


def mixer(**options: Any) -> nn.Module:
    """Return timm's MLP mixer, or its relatives by ``options``."""
    from timm.models.mlp_mixer import MlpMixer

    model: nn.Module = MlpMixer(num_classes=10, img_size=32, patch_size=8, num_blocks=2, embed_dim=32, **options)
    return model


def res_mlp() -> nn.Module:
    """Return timm's ResMLP."""
    from timm.models.mlp_mixer import Affine, ResBlock

    return mixer(mlp_ratio=4, block_layer=ResBlock, norm_layer=Affine)


def conv_mixer() -> nn.Module:
    """Return timm's ConvMixer."""
    from timm.models.convmixer import ConvMixer

    model: nn.Module = ConvMixer(32, 2, kernel_size=3, patch_size=4, num_classes=10)
    return model


def vision(name: str, **options: Any) -> Callable[[], nn.Module]:
    """Return a function that creates a model of torchvision."""

    def make() -> nn.Module:
        import torchvision

        model: nn.Module = getattr(torchvision.models, name)(num_classes=10, **options)
        return model

    return make


def hugging(name: str, **options: Any) -> Callable[[], nn.Module]:
    """Return a function that creates a model of transformers; ``name``: its configuration class without "Config"."""

    def make() -> nn.Module:
        import transformers

        common = {"num_labels": 10, "vocab_size": 17, "pad_token_id": 0, "hidden_size": 32, "num_hidden_layers": 2}
        heads = {"num_attention_heads": 2, "intermediate_size": 64}
        config = getattr(transformers, name + "Config")(**{**common, **heads, **options})
        model: nn.Module = getattr(transformers, name + "ForSequenceClassification")(config)
        return model

    return make


SMALL_VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2}
TEXT = {
    "hf_bert": hugging("Bert"), "hf_roberta": hugging("Roberta", max_position_embeddings=80), "hf_electra": hugging("Electra"),
    "hf_albert": hugging("Albert", embedding_size=16),
    "hf_distilbert": hugging("DistilBert", hidden_dim=64),
    "hf_gpt2": hugging("GPT2"), "hf_llama": hugging("Llama", num_key_value_heads=2),
}  # fmt: skip
IMAGES = {
    "tv_resnet18": vision("resnet18"), "tv_squeezenet": vision("squeezenet1_1"),
    "tv_mobilenet_v3": vision("mobilenet_v3_small"), "tv_shufflenet": vision("shufflenet_v2_x0_5"),
    "tv_mnasnet": vision("mnasnet0_5"),
    "timm_vit": timm_model("vit_tiny_patch16_224", **SMALL_VIT), "timm_deit": timm_model("deit_tiny_patch16_224", **SMALL_VIT),
    "timm_mixer": mixer,
    "timm_resmlp": res_mlp,
    "timm_convmixer": conv_mixer,
    "timm_convnext": timm_model("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 16, 16, 32)),
    "timm_resnet": timm_model("resnet10t"), "timm_mobilenet_v2": timm_model("mobilenetv2_035"),
}  # fmt: skip
NETWORKS = IMAGES | TEXT


def data(name: str) -> tuple[Tensor, Tensor]:
    """Return all inputs of a network's kind, and the classes."""
    pixels, classes = load_digits(return_X_y=True)
    rows = torch.from_numpy(pixels.astype(np.float32))
    if name in TEXT:
        return rows.long(), torch.from_numpy(classes)
    images = F.interpolate(rows.view(-1, 1, 8, 8) / 16, (32, 32)).expand(-1, 3, -1, -1)
    return images.contiguous(), torch.from_numpy(classes)


def accuracy(model: nn.Module, inputs: Tensor, targets: Tensor) -> float:
    """Return the share of right examples, in evaluation mode."""
    model.eval()
    with torch.no_grad():
        made = [logits(model(rows)).argmax(1) for rows in inputs.split(100)]
    model.train()
    return float((torch.cat(made) == targets).float().mean())


def train(name: str, steps: int, seconds: float, batch_size: int, way: str) -> tuple[float, int, float]:
    """Return accuracy, steps and seconds of a training by one of ``WAYS``.

    It ends after ``steps``, or with the first step that ends after ``seconds``.
    """
    torch.manual_seed(1)
    model = NETWORKS[name]()
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0  # for both ways
    inputs, targets = data(name)
    order = torch.randperm(len(inputs) - TEST)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0003)
    start, used, done = time.process_time(), 0.0, 0
    estimate = None if way == "backward" else neuro.ForwardGradient(model, threads=1, correction=way)
    while done < steps and used < seconds:
        rows = order[torch.arange(done * batch_size, (done + 1) * batch_size) % len(order)]
        optimizer.zero_grad()
        if estimate is None:
            losses(model(inputs[rows]), targets[rows]).mean().backward()
        else:
            estimate.backward(losses, inputs[rows], targets[rows])
        optimizer.step()
        done, used = done + 1, time.process_time() - start
    # an estimate does not update the statistics of batch norm, and those of back-propagation lag: both ways get exact ones
    torch.optim.swa_utils.update_bn([inputs[rows] for rows in order.split(100)], model)
    return accuracy(model, inputs[-TEST:], targets[-TEST:]), done, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS), help="networks (all)")
    parser.add_argument("--steps", type=int, default=10**9, help="steps of each way at most (no bound)")
    parser.add_argument("--seconds", type=float, default=120, help="processor seconds of each way at most (120)")
    parser.add_argument("--batch-size", type=int, default=32, help="examples in a step (32)")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="ways of training (all)")
    parser.add_argument("--csv", type=Path, help="file to which rows are added")
    typed = parser.parse_args()
    torch.set_num_threads(1)
    for name in typed.only:
        size = sum(parameter.numel() for parameter in NETWORKS[name]().parameters())
        row: list[object] = [name, size]
        for way in typed.ways:
            try:
                right, steps, seconds = train(name, typed.steps, typed.seconds, typed.batch_size, way)
                row += [f"{right:.1%}", steps, f"{seconds:.0f}"]
            except neuro.UserError as error:
                row += [f"refused: {error}", "-", "-"]
        print(" | ".join(map(str, row)), flush=True)
        if typed.csv is not None:
            typed.csv.parent.mkdir(parents=True, exist_ok=True)
            with typed.csv.open("a", newline="") as file:
                csv.writer(file).writerow(row)


if __name__ == "__main__":
    main()
