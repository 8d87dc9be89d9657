"""Messages are plain data: what is packed comes back, anything else is refused."""

import pickle
from contextlib import suppress

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuro_cli.evolve.network.encoding import packed, unpacked

PLAIN = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.text(max_size=8),
        st.binary(max_size=8),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=8,
)  # fmt: skip


@given(PLAIN)
def test_plain_data_come_back_as_they_were(value):
    found = unpacked(packed(value))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("value", [object(), (1, 2), {1}, type])
def test_nothing_else_is_packed(value):
    with pytest.raises(TypeError):
        packed(value)


@given(st.binary(max_size=60))
def test_foreign_bytes_are_values_or_a_ValueError(content):  # noqa: N802
    with suppress(ValueError):
        unpacked(content)


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit('a pickle was run')",)


@pytest.mark.parametrize("content", [msgpack.packb(msgpack.ExtType(5, b"abc")), pickle.dumps(Bomb())])
def test_neither_extensions_nor_pickles_are_run(content):
    with pytest.raises(ValueError):
        unpacked(content)
