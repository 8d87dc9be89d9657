"""Rows of metrics.csv as columns of numbers."""

from neuro_cli.run_folder.metrics import read_metrics


def test_the_last_generation_is_that_of_the_last_whole_row(tmp_path):
    path = tmp_path / "metrics.csv"
    assert read_metrics(path).last == 0
    for text, last in (("", 0), ("1,2\n", 1), ("1,2\n2,\n", 2), ("1,2\n2,3", 1)):
        path.write_text(f"generation,x\n{text}")
        assert read_metrics(path).last == last


def test_points_are_the_finite_values(tmp_path):
    (tmp_path / "metrics.csv").write_text("generation,x\n1,2.5\n2,\n3,nan\n4,-inf\n5,3.5\n")
    generations, values = read_metrics(tmp_path / "metrics.csv").points("x")
    assert (generations.tolist(), values.tolist()) == ([1, 5], [2.5, 3.5])
    assert [len(part) for part in read_metrics(tmp_path / "metrics.csv").points("y")] == [0, 0]
