"""Trackers get metrics by groups; a column is never lost to another's name."""

from neuro_cli.logger.columns import LATER_COLUMNS, METRIC_COLUMNS, RANK_COLUMNS, grouped


def test_the_columns_of_a_run() -> None:
    columns = (*METRIC_COLUMNS, *RANK_COLUMNS, *LATER_COLUMNS)
    assert list(grouped(dict.fromkeys(columns, 1.0))) == [
        "train/fitness_mean",
        "train/fitness_best",
        "train/loss",
        "time/seconds",
        "time/sample",
        "time/forward",
        "time/communicate",
        "time/update",
        "network/bytes_sent",
        "network/bytes_received",
        "time/candidates_per_second",
        "scaling/weak_efficiency",
        "scaling/strong_efficiency",
        "time/elapsed",
        "train/sigma",
        "train/rate",
        "train/non_finite",
    ]


OTHERS = {
    "mean_return": "test/mean_return",  # declared by the task
    "member_0_test_accuracy": "test/member_0_test_accuracy",
    "episode_length": "train/episode_length",
    "train_accuracy": "train/accuracy",
    "steps_per_second": "time/steps_per_second",
    "peers": "cluster/peers",
    "iid_forward/seconds": "iid_forward/seconds",
    "test_": "train/test_",
}


def test_other_columns() -> None:
    found = grouped(dict.fromkeys(["generation", *OTHERS], 0.5), ("mean_return", "member_0_test_accuracy"))
    assert found == dict.fromkeys(OTHERS.values(), 0.5)
    row = {"generation": 1, "test_accuracy": None, "train_loss": 0.0, "bytes_sent": 0}
    assert grouped(row) == {"train/loss": 0.0, "network/bytes_sent": 0}


def test_two_columns_never_share_a_name() -> None:
    row = {"generation": 1, "train_loss": 1.0, "loss": 2.0, "seconds": 3.0, "seconds_seconds": 4.0, "test_a": None, "a": 5.0}
    found = grouped(row, ("test_a", "a"))
    assert found == {"train/train_loss": 1.0, "train/loss": 2.0, "time/seconds": 3.0, "time/seconds_seconds": 4.0, "test/a": 5.0}
