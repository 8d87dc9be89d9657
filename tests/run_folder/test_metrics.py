"""Rows of metrics.csv, the last of which a kill may have torn."""

from neuro_cli.run_folder.metrics import read_metrics


def test_the_last_generation_is_that_of_the_last_whole_row(tmp_path):
    path = tmp_path / "metrics.csv"
    assert read_metrics(path).last == 0
    for text, last in (("", 0), ("1,2\n", 1), ("1,2\n2,\n", 2), ("1,2\n2,3", 1)):
        path.write_text(f"generation,x\n{text}")
        assert read_metrics(path).last == last
