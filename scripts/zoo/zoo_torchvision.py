"""Families of torchvision: the files of ``torchvision.models`` and of its folders."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from subjects import Subject, TooLargeError, images, plain
from torch import Tensor, nn
from torchvision import models as tv
from torchvision.models.detection import backbone_utils, faster_rcnn, fcos, keypoint_rcnn, mask_rcnn, retinanet, rpn, ssd
from torchvision.models.segmentation import deeplabv3, fcn, lraspp

CLASSES = 10


def with_classifier(make: Callable[[], nn.Module], *widths: int) -> nn.Module:
    """Network whose classifier has other widths: the files' own have 4,096 and no argument for that."""
    network = make()
    first, last = widths
    network.classifier = nn.Sequential(nn.Linear(first, last), nn.ReLU(), nn.Dropout(), nn.Linear(last, CLASSES))
    return network


def vgg() -> nn.Module:
    plan = [8, "M", 16, "M", 32, "M", 64, "M", 512, "M"]
    return tv.VGG(tv.vgg.make_layers(plan, batch_norm=True), num_classes=CLASSES, init_weights=False)


def small_resnet() -> nn.Module:
    return tv.ResNet(tv.resnet.BasicBlock, [1, 1, 1, 1], num_classes=CLASSES)


def pyramid() -> nn.Module:
    return backbone_utils.BackboneWithFPN(small_resnet(), {"layer2": "0", "layer3": "1"}, [128, 256], 32)


def anchors(per_place: int = 1) -> rpn.AnchorGenerator:
    return rpn.AnchorGenerator(tuple((size,) * per_place for size in (16, 32, 64)), ((1.0,),) * 3)


def segmented(head: Callable[[], nn.Module], whole: type[nn.Module]) -> nn.Module:
    body = tv._utils.IntermediateLayerGetter(small_resnet(), {"layer4": "out"})
    return whole(body, head())


def small_lraspp() -> nn.Module:
    body = tv.mobilenet_v3_small().features
    return lraspp.LRASPP(tv._utils.IntermediateLayerGetter(body, {"3": "low", "12": "high"}), 24, 576, CLASSES)


SIZES = {"min_size": 64, "max_size": 64}


def two_stages() -> dict[str, Any]:
    """Arguments of a detector that looks at a few of its proposals again."""
    return {
        **SIZES, "rpn_anchor_generator": anchors(), "box_head": faster_rcnn.TwoMLPHead(32 * 49, 32),
        "box_predictor": faster_rcnn.FastRCNNPredictor(32, CLASSES), "rpn_post_nms_top_n_test": 16, "box_detections_per_img": 5,
    }  # fmt: skip


# families by file: what stands for them, and the shape of an example
FAMILIES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "alexnet": (lambda: with_classifier(tv.AlexNet, 256 * 36, 16), (3, 64, 64)),
    "convnext": (
        lambda: tv.ConvNeXt([tv.convnext.CNBlockConfig(8, 16, 1), tv.convnext.CNBlockConfig(16, None, 1)], num_classes=CLASSES),
        (3, 32, 32),
    ),
    "densenet": (lambda: tv.DenseNet(8, (2, 2, 2, 2), 16, num_classes=CLASSES), (3, 64, 64)),
    "efficientnet": (
        lambda: tv.EfficientNet(
            [
                tv.efficientnet.MBConvConfig(1, 3, 1, 32, 16, 1, 1.0, 1),
                tv.efficientnet.MBConvConfig(6, 3, 2, 16, 24, 1, 1.0, 1),
                tv.efficientnet.FusedMBConvConfig(4, 3, 2, 24, 32, 1),
            ],
            0.2,
            num_classes=CLASSES,
        ),
        (3, 32, 32),
    ),
    "googlenet": (lambda: tv.GoogLeNet(CLASSES, aux_logits=False, init_weights=False), (3, 64, 64)),
    "inception": (lambda: tv.Inception3(CLASSES, aux_logits=False, init_weights=False), (3, 107, 107)),
    "maxvit": (lambda: tv.MaxVit((32, 32), 8, 4, [8, 16], [1, 1], 4, 0.0, num_classes=CLASSES), (3, 32, 32)),
    "mnasnet": (lambda: tv.MNASNet(0.25, CLASSES), (3, 64, 64)),
    "mobilenetv2": (
        lambda: tv.MobileNetV2(CLASSES, 0.25, [[1, 16, 1, 1], [6, 24, 1, 2], [6, 32, 1, 2], [6, 64, 1, 2]]),
        (3, 64, 64),
    ),
    "mobilenetv3": (lambda: tv.mobilenet_v3_small(num_classes=CLASSES, width_mult=0.5), (3, 64, 64)),
    "regnet": (
        lambda: tv.RegNet(tv.regnet.BlockParams.from_init_params(4, 16, 16.0, 2.0, 8, se_ratio=0.25), CLASSES), (3, 64, 64)
    ),
    "resnet": (small_resnet, (3, 64, 64)),
    "shufflenetv2": (lambda: tv.ShuffleNetV2([2, 2, 2], [8, 16, 32, 64, 128], CLASSES), (3, 64, 64)),
    "squeezenet": (lambda: tv.SqueezeNet("1_1", CLASSES), (3, 64, 64)),
    "swin_transformer": (
        lambda: tv.SwinTransformer(
            [4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=CLASSES, block=tv.swin_transformer.SwinTransformerBlockV2,
            downsample_layer=tv.swin_transformer.PatchMergingV2,
        ),
        (3, 48, 48),
    ),
    "vgg": (lambda: with_classifier(vgg, 512 * 49, 16), (3, 32, 32)),
    "vision_transformer": (lambda: tv.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=CLASSES), (3, 32, 32)),
    "segmentation.deeplabv3": (
        lambda: segmented(lambda: deeplabv3.DeepLabHead(512, CLASSES, (2, 4)), deeplabv3.DeepLabV3), (3, 64, 64)
    ),
    "segmentation.fcn": (lambda: segmented(lambda: fcn.FCNHead(512, CLASSES), fcn.FCN), (3, 64, 64)),
    "segmentation.lraspp": (small_lraspp, (3, 64, 64)),
    "detection.faster_rcnn": (lambda: faster_rcnn.FasterRCNN(pyramid(), **two_stages()), (3, 64, 64)),
    "detection.fcos": (
        lambda: fcos.FCOS(pyramid(), CLASSES, anchor_generator=anchors(), detections_per_img=5, **SIZES), (3, 64, 64)
    ),
    "detection.keypoint_rcnn": (
        lambda: keypoint_rcnn.KeypointRCNN(
            pyramid(), keypoint_head=keypoint_rcnn.KeypointRCNNHeads(32, (16,)),
            keypoint_predictor=keypoint_rcnn.KeypointRCNNPredictor(16, 3), **two_stages(),
        ),
        (3, 64, 64),
    ),
    "detection.mask_rcnn": (
        lambda: mask_rcnn.MaskRCNN(
            pyramid(), mask_head=mask_rcnn.MaskRCNNHeads(32, (16,), 1),
            mask_predictor=mask_rcnn.MaskRCNNPredictor(16, 16, CLASSES), **two_stages(),
        ),
        (3, 64, 64),
    ),
    "detection.retinanet": (
        lambda: retinanet.RetinaNet(pyramid(), CLASSES, anchor_generator=anchors(), detections_per_img=5, **SIZES), (3, 64, 64)
    ),
    "detection.ssd": (
        lambda: ssd.SSD(
            tv._utils.IntermediateLayerGetter(small_resnet(), {"layer3": "0", "layer4": "1"}),
            rpn_free_boxes(), (64, 64), CLASSES, detections_per_img=5,
        ),
        (3, 64, 64),
    ),
    "video.mvit": (
        lambda: tv.video.MViT(
            (16, 16), 4,
            [
                tv.video.mvit.MSBlockConfig(1, 16, 16, [3, 3, 3], [3, 3, 3], [1, 1, 1], [1, 2, 2]),
                tv.video.mvit.MSBlockConfig(2, 16, 32, [3, 3, 3], [3, 3, 3], [1, 2, 2], [1, 1, 1]),
            ],
            residual_pool=False, residual_with_cls_embed=False, rel_pos_embed=False, proj_after_attn=False, num_classes=CLASSES,
        ),
        (3, 4, 16, 16),
    ),
    "video.resnet": (
        lambda: tv.video.VideoResNet(
            tv.video.resnet.BasicBlock, [tv.video.resnet.Conv2Plus1D] * 4, [1, 1, 1, 1], tv.video.resnet.R2Plus1dStem, CLASSES
        ),
        (3, 4, 16, 16),
    ),
    "video.swin_transformer": (
        lambda: tv.video.SwinTransformer3d([2, 4, 4], 16, [2, 1], [2, 4], [2, 2, 2], num_classes=CLASSES), (3, 4, 16, 16)
    ),
}  # fmt: skip


def rpn_free_boxes() -> nn.Module:
    from torchvision.models.detection.anchor_utils import DefaultBoxGenerator

    return DefaultBoxGenerator([[2], [2]])


def of_each_image(module: nn.Module, x: Tensor) -> Tensor:
    """Call a detector, with a value for each image: it finds any number of boxes there."""
    return torch.stack([found["scores"].sum() + found["boxes"].mean(1).sum() / 64 for found in module(x)])


def names_of_families() -> Counter[str]:
    """Number of registered names by the file of their builder, without those that are the same again for quantization."""
    files = (tv.get_model_builder(name).__module__.removeprefix("torchvision.models.") for name in tv.list_models())
    return Counter(file for file in files if not file.startswith("quantization."))


def no_small_form() -> nn.Module:
    """Refuse a family, whose row then says why."""
    raise TooLargeError("it has no small form that takes small images")


def subjects() -> list[Subject]:
    found = []
    for family, names in sorted(names_of_families().items()):
        make, shape = FAMILIES.get(family, (no_small_form, (3, 64, 64)))
        call = of_each_image if family.startswith("detection.") else plain
        found.append(Subject("torchvision", family, names, "", "small", make, images(*shape), call))
    return found
