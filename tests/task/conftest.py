"""Folders that several task tests read."""

from pathlib import Path

import pytest
from support.made_data import write_image


@pytest.fixture
def image_root(tmp_path):
    """train/ and test/ with classes cat and dog: 3 + 3 and 1 + 1 colour PNGs of 6x5 pixels."""
    for part, count in (("train", 3), ("test", 1)):
        for number in range(count):
            for offset, kind in enumerate(("cat", "dog")):
                write_image(tmp_path / part / kind / f"{number}.png", seed=10 * number + offset)
    return tmp_path


@pytest.fixture(scope="session")
def shared_data():
    """The real data that some machines have beside the checkout."""
    folder = Path(__file__).parents[2].parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data in {folder}")
    return folder
