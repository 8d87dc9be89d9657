"""Families of timm: the files of ``timm.models``. Each is one name of it, with fewer and narrower blocks where that can be had.

``FILE.Class`` is the class itself, for files whose factories do not let these arguments through.
"""

import copy
import importlib
from functools import partial
from typing import Any

import timm
from subjects import Subject, TooLargeError, images
from timm.models import _registry
from timm.models._efficientnet_builder import decode_arch_def
from timm.models.byobnet import ByoBlockCfg
from timm.models.mvitv2 import MultiScaleVitCfg
from timm.models.selecsls import SelecSlsBlock
from timm.models.vitamin import VitCfg, VitConvCfg
from torch import nn

CLASSES = 10
# the first stages of mobilenetv5_base, narrower
MOBILE = [
    ["er_r1_k3_s2_e4_c16"],
    ["uir_r1_a3_k5_s2_e6_c24"],
    ["uir_r1_a5_k5_s2_e6_c32", "mqa_r1_k3_h2_s2_d16_c32", "uir_r1_a0_k0_s1_e2_c32"],
    ["uir_r1_a5_k5_s2_e6_c48", "mqa_r1_k3_h2_s1_d16_c48", "uir_r1_a0_k0_s1_e2_c48"],
]
# as selecsls42, narrower
SELECTIVE = {
    "block": SelecSlsBlock,
    "features": [(32, 0, 16, 16, True, 2), (16, 16, 16, 32, False, 1), (32, 0, 24, 24, True, 2), (24, 24, 24, 48, False, 1)],
    "head": [(48, 64, 3, 2), (64, 64, 3, 1)],
    "num_features": 64,
    "feature_info": [{"num_chs": 32, "reduction": 2, "module": "stem.2"}],
}  # fmt: skip
# the flows of xception41p, narrower
ALIGNED = [
    {"in_chs": 64, "out_chs": 32, "stride": 2},
    {"in_chs": 32, "out_chs": 32, "stride": 1},
    {"in_chs": 32, "out_chs": (32, 48, 48), "stride": 2},
    {"in_chs": 48, "out_chs": (48, 64, 64), "no_skip": True, "stride": 1},
]
# keyed by file: name or class, width and height of an image, arguments
FAMILIES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "beit": ("beit_base_patch16_224", 32, {"embed_dim": 48, "num_heads": 3, "img_size": 32}),
    "byoanet": (
        "halonet_h1", 64,
        {
            "stem_chs": 16,
            "blocks": tuple(ByoBlockCfg("self_attn", 1, width, stride, 0, 1.0) for width, stride in ((16, 1), (24, 2))),
        },
    ),
    "byobnet": ("test_byobnet", 32, {"img_size": 32}),
    "cait": ("cait_xxs24_224", 32, {"embed_dim": 48, "num_heads": 3, "img_size": 32}),
    "coat": ("coat_tiny", 32, {"img_size": 32, "serial_depths": (1, 1, 1, 1), "parallel_depth": 1}),
    "convit": ("convit_tiny", 32, {"depth": 2, "img_size": 32}),
    "convmixer": ("convmixer.ConvMixer", 32, {"dim": 24, "depth": 2}),
    "convnext": ("test_convnext", 32, {}),
    "cpubone": ("cpubone_nano", 32, {}),
    "crossvit": (
        "crossvit_tiny_240", 32,
        {
            "img_size": 32, "patch_size": (4, 8), "img_scale": (1.0, 1.0), "embed_dim": (24, 48),
            "depth": ((1, 1, 0),), "num_heads": (3, 3),
        },
    ),
    "csatv2": ("csatv2", 64, {"dims": (16, 32, 48, 64)}),
    "cspnet": ("cs3darknet_focus_s", 32, {}),
    "cspnext": ("cspnext_tiny", 32, {}),
    "davit": ("davit_tiny", 32, {"depths": (1, 1, 1, 1), "embed_dims": (24, 48, 96, 192), "num_heads": (1, 2, 4, 8)}),
    "deepseek_vit": ("deepseek_vit_412m", 84, {"img_size": 84, "embed_dim": 48, "depth": 2, "num_heads": 3}),
    "deit": ("deit_tiny_patch16_224", 32, {"embed_dim": 48, "num_heads": 3, "img_size": 32}),
    "densenet": ("densenet121", 32, {"growth_rate": 8}),
    "dla": ("dla46x_c", 32, {}),
    "dpn": (
        "dpn.DPN", 32,
        {
            "k_sec": (1, 1, 1, 1), "inc_sec": (8, 8, 8, 8), "k_r": 16, "groups": 4, "small": True,
            "num_init_features": 10,
        },
    ),
    "edgenext": ("edgenext_xx_small", 32, {}),
    "efficientformer": (
        "efficientformer.EfficientFormer", 224,
        {
            "depths": (1, 1, 1, 1), "embed_dims": (4, 4, 8, 8), "num_vit": 1,
        },
    ),
    "efficientformer_v2": (
        "efficientformerv2_s0", 32,
        {
            "depths": (1, 1, 1, 1), "embed_dims": (16, 32, 48, 64), "img_size": 32,
        },
    ),
    "efficientnet": ("test_efficientnet", 32, {}),
    "efficientvim": ("efficientvim_m1", 64, {"embed_dim": (16, 32, 48), "depths": (1, 1, 1)}),
    "efficientvit_mit": ("efficientvit_b0", 32, {"depths": (1, 1, 1)}),
    "efficientvit_msra": ("efficientvit_m0", 32, {"depth": (1, 2, 1), "img_size": 32}),
    "eva": ("vit_tiny_patch16_dinov3_qkvb", 32, {"embed_dim": 48, "num_heads": 3, "img_size": 32}),
    "fasternet": ("fasternet_t0", 32, {"depths": (1, 1, 1, 1), "embed_dim": 32}),
    "fastvit": ("fastvit_t8", 32, {"layers": (1, 1, 2, 1), "embed_dims": (16, 32, 64, 128)}),
    "focalnet": ("focalnet.FocalNet", 64, {"embed_dim": 16, "depths": (1, 1, 1, 1)}),
    "gcvit": (
        "gcvit.GlobalContextVit", 64,
        {
            "embed_dim": 16, "depths": (1, 1, 1, 1), "num_heads": (1, 2, 4, 8), "img_size": 64,
        },
    ),
    "gemma4_vit": ("gemma4_vit_167m", 32, {"depth": 2, "embed_dim": 48, "num_heads": 3, "img_size": 32}),
    "ghostnet": ("ghostnet_050", 32, {}),
    "hardcorenas": ("hardcorenas_a", 32, {}),
    "hgnet": ("hgnetv2_b0", 64, {}),
    "hiera": ("hiera_tiny_224", 32, {"stages": (1, 1, 1, 1), "embed_dim": 48, "num_heads": 3, "img_size": 32}),
    "hieradet_sam2": ("sam2_hiera_tiny", 32, {"stages": (1, 1, 1, 1), "embed_dim": 32}),
    "hrnet": ("hrnet_w18_small", 64, {}),
    "iformer": ("iformer_t", 32, {"dims": (16, 32, 48, 64)}),
    "inception_next": ("inception_next_atto", 32, {"dims": (16, 32, 48, 64)}),
    "inception_v3": ("inception_v3", 96, {}),
    "lcnetv2": ("lcnetv2_small", 32, {"depths": (1, 1, 1, 1)}),
    "levit": ("levit_128s", 32, {"depth": (1, 2, 1), "img_size": 32}),
    "lowformer": (
        "lowformer_b0", 64,
        {
            "width_list": (8, 16, 24, 32, 48), "depth_list": (0, 1, 1, 1, 1), "head_widths": (64, 48),
        },
    ),
    "mambaout": ("test_mambaout", 32, {}),
    "maxxvit": ("test_coatnet", 32, {"img_size": 32}),
    "metaformer": ("metaformer.MetaFormer", 32, {"depths": (1, 1, 1, 1), "dims": (16, 24, 32, 48)}),
    "mlp_mixer": ("gmlp_ti16_224", 32, {"img_size": 32}),
    "mobilenetv3": ("mobilenetv3_small_050", 32, {}),
    "mobilenetv5": (
        "mobilenetv5.MobileNetV5", 32,
        {
            "block_args": decode_arch_def(MOBILE), "num_features": 64, "msfa_output_resolution": 2,
        },
    ),
    "mobilevit": ("mobilevit_xxs", 32, {"img_size": 32}),
    "mvitv2": ("mvitv2.MultiScaleVit", 64, {"cfg": MultiScaleVitCfg((1, 1, 1, 1), 16), "img_size": (64, 64)}),
    "naflexvit": ("naflexvit_base_patch16_parfac_gap", 32, {"embed_dim": 48, "num_heads": 3}),
    "nasnet": ("nasnet.NASNetALarge", 64, {"stem_size": 8, "num_features": 192}),
    "nest": ("nest.Nest", 32, {"img_size": 32, "embed_dims": (16, 32, 48), "num_heads": (1, 2, 3), "depths": (1, 1, 1)}),
    "nextvit": ("nextvit_small", 64, {"depths": (1, 1, 5, 1), "stem_chs": (16, 16, 16)}),
    "nfnet": ("test_nfnet", 32, {}),
    "pit": ("pit_ti_224", 32, {"base_dims": (16, 16, 16), "heads": (1, 2, 4), "img_size": 32}),
    "pvt_v2": ("pvt_v2_b0", 32, {"depths": (1, 1, 1, 1), "embed_dims": (24, 48, 96, 192), "num_heads": (1, 2, 4, 8)}),
    "qwen3_vit": ("qwen3_vit_88m", 32, {"embed_dim": 48, "num_heads": 3, "img_size": 32}),
    "rdnet": ("rdnet_tiny", 64, {"num_init_features": 16, "growth_rates": (16,) * 7, "num_blocks_list": (1,) * 7}),
    "regnet": ("regnetx_002", 32, {"num_features": 64}),
    "repghost": ("repghostnet_050", 32, {}),
    "repvit": ("repvit_m1", 32, {"embed_dim": (16, 24, 32, 48), "depth": (1, 1, 2, 1)}),
    "res2net": ("res2next50", 32, {"layers": (1, 1, 1, 1)}),
    "resnest": ("resnest14d", 32, {"layers": (2, 1, 1, 1), "base_width": 16}),
    "resnet": ("test_resnet", 32, {}),
    "resnetv2": ("resnetv2_18", 32, {"layers": (1, 1, 1)}),
    "rexnet": ("rexnet_100", 32, {"width_mult": 0.25}),
    "selecsls": ("selecsls.SelecSls", 64, {"cfg": SELECTIVE}),
    "senet": ("legacy_seresnet18", 32, {"layers": (1, 1, 1, 1)}),
    "sequencer": ("sequencer2d_s", 32, {"layers": (1, 1, 1, 1), "embed_dims": (16, 32, 48, 64), "img_size": 32}),
    "shvit": ("shvit_s1", 64, {"depth": (1, 1, 1)}),
    "sknet": ("skresnet18", 32, {"layers": (1, 1, 1, 1, 1)}),
    "starnet": ("starnet_s050", 32, {}),
    "swiftformer": ("swiftformer_xs", 32, {"embed_dims": (16, 32, 48, 64), "img_size": 32}),
    "swin_transformer": (
        "swin_tiny_patch4_window7_224", 32,
        {
            "depths": (1, 1, 1, 1), "embed_dim": 24, "num_heads": (1, 2, 3, 4), "img_size": 32,
        },
    ),
    "swin_transformer_v2": (
        "swinv2_tiny_window16_256", 32,
        {
            "depths": (1, 1, 1, 1), "embed_dim": 24, "num_heads": (1, 2, 3, 4), "img_size": 32,
        },
    ),
    "swin_transformer_v2_cr": (
        "swinv2_cr_tiny_224", 32,
        {
            "depths": (1, 1, 1, 1), "embed_dim": 24, "num_heads": (1, 2, 3, 4), "img_size": 32,
        },
    ),
    "tiny_vit": ("tiny_vit_5m_224", 32, {"depths": (1, 1, 1, 1), "embed_dims": (24, 48, 96, 192), "num_heads": (1, 2, 4, 8)}),
    "tnt": ("tnt_s_legacy_patch16_224", 32, {"depth": 2, "img_size": 32}),
    "tresnet": ("tresnet_m", 32, {"layers": (1, 1, 1, 1), "width_factor": 0.25}),
    "twins": ("twins_svt_small", 32, {"embed_dims": (16, 32, 48, 64), "img_size": 32}),
    "vgg": ("vgg.VGG", 32, {"cfg": (8, "M", 16, "M", 32, "M", 64, "M", 64, "M"), "mlp_ratio": 0.01}),
    "visformer": ("visformer_tiny", 32, {"embed_dim": 48, "num_heads": 3, "img_size": 32}),
    "vision_transformer": ("test_vit", 32, {"img_size": 32}),
    "vision_transformer_hybrid": ("vit_tiny_r_s16_p8_224", 32, {"embed_dim": 48, "num_heads": 3, "img_size": 32}),
    "vision_transformer_relpos": ("test_vit_relpos", 32, {"img_size": 32}),
    "vision_transformer_sam": ("samvit_base_patch16_224", 32, {"depth": 2, "embed_dim": 48, "num_heads": 3, "img_size": 32}),
    "vitamin": (
        "vitamin_small_224", 32,
        {
            "img_size": 32, "embed_dim": 48, "depth": 1, "num_heads": 3,
            "embed_cfg": VitCfg((16, 32, 48), (1, 1, 1), 16, VitConvCfg(norm_layer="layernorm2d"), "1d"),
        },
    ),
    "volo": (
        "volo.VOLO", 64,
        {
            "layers": (1, 1, 1, 1), "embed_dims": (24, 48, 48, 48), "num_heads": (2, 4, 4, 4), "img_size": 64,
            "stem_hidden_dim": 16,
        },
    ),
    "vovnet": ("ese_vovnet19b_slim_dw", 32, {}),
    "xception": ("legacy_xception", 64, {}),
    "xception_aligned": ("xception_aligned.XceptionAligned", 64, {"preact": True, "block_cfg": ALIGNED}),
    "xcit": ("xcit_nano_12_p8_224", 32, {"embed_dim": 48, "num_heads": 3, "img_size": 32}),
}  # fmt: skip


# over 40 million weights, and no argument for fewer
LARGE = ("inception_resnet_v2", "inception_v4", "pnasnet")


def made(model: str, arguments: dict[str, Any]) -> nn.Module:
    """Make a network with random weights. Raises TooLargeError for one of LARGE."""
    if model in LARGE:
        raise TooLargeError("it has no small form")
    arguments = copy.deepcopy(arguments)  # some factories take their arguments apart
    file, _, kind = model.rpartition(".")
    if not file:
        return timm.create_model(model, pretrained=False, num_classes=CLASSES, **arguments)
    network: nn.Module = getattr(importlib.import_module(f"timm.models.{file}"), kind)(num_classes=CLASSES, **arguments)
    return network


def subjects() -> list[Subject]:
    """A subject for each file; one that is not in the table is tried by its first name, as it is."""
    listed = set(timm.list_models())
    found = []
    for family, names in sorted(_registry._module_to_models.items()):
        model, side, arguments = FAMILIES.get(family, (family if family in LARGE else min(names), 224, {}))
        shrunk = ", ".join(f"{key}={value}" for key, value in arguments.items())
        build = partial(made, model, arguments)
        found.append(Subject("timm", family, len(names & listed), model, shrunk, build, images(3, side, side)))
    return found
