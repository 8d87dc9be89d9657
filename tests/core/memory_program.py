"""Compiled loops on odd shapes, for a checker of memory to look on: python memory_program.py [wrong]

Of ``wrong`` a loop writes behind an array at the end: what looks on has to see that.
"""

import sys
import warnings
from types import SimpleNamespace

import numba as nb
import numpy as np
import test_loop_bounds as bounds

warnings.filterwarnings("ignore", "Using `assume` outside")


def run(test, **given) -> None:
    print(test.__name__, flush=True)
    test.hypothesis.inner_test(loops=lambda module: module, **given)


@nb.njit(cache=True, boundscheck=False)
def beyond(numbers, count):
    for place in range(count):
        numbers[place] += 1


WIDE = {"stride": (1, 1), "padding": (3, 3), "dilation": (1, 1)}
SHAPES = {"directions": 2, "examples": 1, "seed": 1}
run(bounds.test_signs_and_places_of_features, channels=33, kept=17, examples=2, seed=1, single=True)
for name in bounds.OPERATIONS:
    run(bounds.test_rows_of_images, name=name, channels=3, size=(2, 1), sides=2, single=True, **SHAPES)
for inner in (1, 2):
    members = {"members": (2, 1, 1), "single": True}
    run(bounds.test_filters, inner=inner, groups=3 - inner, rank=2, size=(2, 2), kernel=(3, 7), **WIDE, **members)
    run(bounds.test_filters, inner=1, groups=3, rank=1, size=(3, 2), kernel=(3, 7), **WIDE | {"stride": (2, 2)}, **members)
run(bounds.test_products_with_features, channels=17, points=1, rank=2, examples=1)
for biases in "nvb":
    run(bounds.test_layers_with_own_weights, sizes=(17, 33), shape=(2, 1), sides=2, shared=True, biases=biases)
bounds.test_rounding_by_given_bits(lambda module: module, 33)
for sides in ("both", "inputs"):
    run(bounds.test_linear_layers, shape=(3, 1, 1, 33, 17, True), rank=2, sides=sides, share=0.4)
run(bounds.test_sums_over_directions, directions=5, inputs=33, outputs=15, rank=2, low=1)
own = {"channels": 2, "outputs": 3, "image": (2, 2), "kernel": (2, 5), "examples": 1, "bias": 2, "last": True, "lines": 1}
run(bounds.test_convolutions_with_own_weights, **own, **WIDE)
watched = SimpleNamespace(node=SimpleNamespace(name="guarded"))
for groups in (1, 2):
    shape = {"count": 1, "channels": 3, "outputs": 33, "image": (5, 2), "padding": (1, 2)}
    run(bounds.test_convolutions_of_fewer_products, request=watched, groups=groups, bias=groups == 1, **shape)
run(bounds.test_members_of_a_block, lines=3, width=17, rank=2, sides=(True, True), one=False, seed=1, kept=5)
run(bounds.test_sums_of_placed_noise, directions=3, lines=4, inner=9, taps=17, square=True, first=False, seed=1)
run(bounds.test_sums_of_a_table, count=70, directions=3, start=3)
run(bounds.test_noise, start=1023, length=33, count=2)
run(bounds.test_policies, widths=[5, 9, 1], count=3, seed=1, bias=True)
print("all", flush=True)
if sys.argv[1:] == ["wrong"]:
    beyond(np.zeros(300, np.float32), 301)
