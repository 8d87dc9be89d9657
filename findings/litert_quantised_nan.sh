#!/usr/bin/env bash
# A quantised LiteRT layer gives a diverged input ordinary outputs
#
# Version: ai-edge-litert 2.3.0, tensorflow-cpu 2.21.0 (to convert), numpy 2.4.6
# Belief: A NaN in the input of a linear layer is a NaN in its outputs.
# Seen: With dynamic-range quantised weights one NaN of 256 inputs leaves all outputs finite, with the XNNPACK delegate and
#   without; a row of NaN alone is 0 without the delegate and NaN with it. Fully quantised (int8) NaN, infinity and 1e6 are
#   ordinary inputs, a row of NaN too. In float32 the NaN stays, but `clip` and `minimum` of a NaN are the limit without the
#   delegate, and `exp` of it is 0 with it.
# Means: A network that diverged, or a broken sensor, has an ordinary fitness on the device, and another one by the delegate.
#   Check what goes in.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ai-edge-litert==2.3.0 tensorflow-cpu==2.21.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType

random = np.random.default_rng(0)
weight, x = random.normal(size=(256, 64)).astype(np.float32), random.normal(size=(4, 256)).astype(np.float32)


def converted(function, shape, data=None, quantised=False):
    concrete = tf.function(function).get_concrete_function(tf.TensorSpec(shape, tf.float32))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
    if quantised:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if data is not None:
        converter.representative_dataset = data
    return converter.convert()


def outputs(model, inputs, delegate):
    options = {} if delegate else {"experimental_op_resolver_type": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES}
    interpreter = Interpreter(model_content=model, **options)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], inputs)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def layer(inputs):
    return tf.matmul(inputs, tf.constant(weight))


def examples():
    for _ in range(50):
        yield [random.normal(size=(4, 256)).astype(np.float32)]


one, row = x.copy(), x.copy()
one[1, 3], row[1] = np.nan, np.nan
seen = {}
kinds = {"float32": (), "dynamic range": (None, True), "int8": (examples, True)}
for name, options in kinds.items():
    model = converted(layer, [4, 256], *options)
    for delegate in (True, False):
        seen[name, delegate] = [bool(np.isfinite(outputs(model, inputs, delegate)[1]).all()) for inputs in (one, row)]
        print(f"{name}, delegate {delegate}: outputs are finite for one NaN, for a row of NaN:", *seen[name, delegate])
numbers = np.array([np.nan, 1.0], np.float32)
for name, function in (("clip", lambda inputs: tf.clip_by_value(inputs, -0.5, 0.5)), ("exp", tf.exp)):
    seen[name] = [float(outputs(converted(function, [2]), numbers, delegate)[0]) for delegate in (True, False)]
    print(f"{name} of a NaN with the delegate and without:", *seen[name])
raise SystemExit(
    [seen["float32", delegate] for delegate in (True, False)] != [[False, False]] * 2
    or [seen["dynamic range", delegate] for delegate in (True, False)] != [[True, False], [True, True]]
    or [seen["int8", delegate] for delegate in (True, False)] != [[True, True]] * 2
    or not (np.isnan(seen["clip"][0]) and seen["clip"][1] == 0.5 and seen["exp"][0] == 0 and np.isnan(seen["exp"][1]))
)
EOF
