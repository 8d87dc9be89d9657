"""``neuro export`` and ``neuro predict``: write a run's trained network to a file, and classify images with it."""

import json
from pathlib import Path
from typing import Any

from neuro_cli.cli.arguments import RUN_HELP, Parser, files_and_values, json_file, names, run_arguments
from neuro_cli.cli.registry import HELP
from neuro_cli.core.checks import integer
from neuro_cli.core.errors import UserError, no_exit, printable
from neuro_cli.core.files import write_atomically
from neuro_cli.run_folder.config import saved_config
from neuro_cli.run_folder.short_names import folder_of

EXPORT_KEYS = ("file", "checkpoint", "trust")
PREDICT_KEYS = ("checkpoint", "trust", "top", "output")
PREDICT_USAGE = "neuro predict RUN FILE ... [checkpoint=GENERATION|best] [top=N] [output=FILE.json] [trust=PACKAGE]"


def export_verb(arguments: list[str]) -> int:
    """Run ``neuro export RUN [file=NAME.safetensors|.pt|.onnx] [checkpoint=GENERATION|best] [trust=PACKAGE]``."""
    run, values = run_arguments("export", arguments, EXPORT_KEYS)
    saved_config(run)  # refuses a folder that is no run
    file = _file(run, values)
    from neuro_cli.export.formats import check_file, write_network
    from neuro_cli.export.network import network_of

    if "file" in values:
        check_file(file)
    with no_exit():
        network = network_of(run, values.get("checkpoint"), names(values.get("trust", [])))
        size = write_network(file, network)
    print(printable(f"neuro: wrote {file}, {size / 1e6:.3g} MB"))
    return 0


def _file(run: Path, values: dict[str, Any]) -> Path:
    """Return the file as typed, else one in the run folder, with a name for each generation that was asked for."""
    if "file" in values:
        return Path(str(values["file"]))
    checkpoint = values.get("checkpoint")
    return run / ("model.safetensors" if checkpoint is None else f"model-{checkpoint}.safetensors")


def predict_verb(arguments: list[str]) -> int:
    """Run ``neuro predict``."""
    parser = Parser("neuro predict", description=HELP["predict"], usage=PREDICT_USAGE)
    parser.add_argument("run", type=Path, metavar="RUN", help=RUN_HELP)
    parser.add_argument(
        "images", nargs="+", metavar="FILE", help="files of images of any size; .npy, .csv and .parquet with an input a row"
    )
    options = parser.parse_args(arguments)
    run = folder_of(options.run)
    saved_config(run)  # refuses a folder that is no run
    images, values = files_and_values(options.images, PREDICT_KEYS, "neuro predict takes")
    top = integer("top", values.get("top", 1), 1)
    output = json_file(values["output"]) if "output" in values else None
    _refuse_missing(images)
    from neuro_cli.export.network import network_of
    from neuro_cli.export.predict import predict

    with no_exit():
        network = network_of(run, values.get("checkpoint"), names(values.get("trust", [])))
        predictions = predict(network, images, top)
    for each in predictions:
        print(printable("  ".join([*(f"{name} {chance:.4f}" for name, chance in each.classes), each.image])))
    if output is not None:
        write_atomically(output, (json.dumps([each.plain() for each in predictions], indent=1) + "\n").encode())
    return 0


def _refuse_missing(images: list[Path]) -> None:
    """Raise UserError for an image that is no file, before torch is imported."""
    if not images:
        raise UserError("which files? usage: neuro predict RUN FILE ... [key=value ...]")
    for path in images:
        if not path.is_file():
            raise UserError(f"{path}: {'a folder: name the images in it' if path.is_dir() else 'there is no such file'}")
