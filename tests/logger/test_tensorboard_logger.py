"""TensorBoard reads back what was logged; a resumed run hides what it makes again; its tab HPARAMS compares runs."""

import sys
from pathlib import Path
from typing import Any

import pytest

from neuro_cli.core.errors import UserError
from neuro_cli.logger.tensorboard import TensorBoardLogger, flat

CONFIG = {"algo": {"sigma": 0.02, "optimizer": None}, "tags": ["a", 1], "task": {"augment": True}, "seed": 7}


def write(run: Path, generations: range, resumed_at: int | None, shift: float, config: dict[str, Any] = CONFIG) -> None:
    logger = TensorBoardLogger()
    logger.start(run, config, resumed_at)
    for generation in generations:
        logger.log({"generation": generation, "fitness_mean": generation + shift, "test_accuracy": None})
    logger.finish({"generations": generations.stop - 1, "test_accuracy": 0.5})


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(UserError) as caught:
        TensorBoardLogger()
    assert str(caught.value) == "logger=tensorboard: needs the extra: pip install '.[tensorboard]'"


@pytest.mark.usefixtures("_a_second_each")
def test_read_back(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    write(tmp_path, range(1, 6), None, 0.0)
    write(tmp_path, range(4, 7), 3, 0.25)
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert events.Tags()["scalars"] == ["train/fitness_mean"]
    points = [(event.step, event.value) for event in events.Scalars("train/fitness_mean")]
    assert points == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.25), (5, 5.25), (6, 6.25)]
    assert "sigma" in str(events.Tensors("config/text_summary"))
    assert events.Tensors("summary/text_summary")[-1].step == 6


def test_a_config_as_hyper_parameters() -> None:
    assert flat(CONFIG) == {"algo.sigma": 0.02, "tags": '["a", 1]', "task.augment": "true", "seed": 7}
    # numbers of the tab are float64
    assert flat({"seed": 2**53 + 1, "other": -(2**53)}) == {"seed": str(2**53 + 1), "other": -(2**53)}


@pytest.mark.usefixtures("_a_second_each")
def test_the_tab_of_hyper_parameters_compares_runs(tmp_path: Path) -> None:
    """TensorBoard's own plugin shows the keys of all jobs of a sweep, differing ones first, and their metrics."""
    pytest.importorskip("tensorboard")
    from tensorboard import context
    from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

    write(tmp_path / "0", range(1, 3), None, 0.0)
    write(tmp_path / "1", range(1, 3), None, 0.0, {"algo": {"sigma": 0.5, "rank": 4}})
    write(tmp_path / "1", range(2, 4), 1, 0.5, {"algo": {"sigma": 0.5, "rank": 4}})  # resumed
    events = plugin_event_multiplexer.EventMultiplexer()
    events.AddRunsFromDirectory(str(tmp_path))
    events.Reload()
    provider = data_provider.MultiplexerDataProvider(events, str(tmp_path))
    plugin = backend_context.Context(base_plugin.TBContext(data_provider=provider, logdir=str(tmp_path)))
    request = context.RequestContext()
    experiment = plugin.experiment_from_metadata(request, "", True, plugin.hparams_metadata(request, ""), [])
    keys = [each.name for each in experiment.hparam_infos]
    assert keys[0] == "algo.sigma"
    assert set(keys) == {"algo.sigma", "algo.rank", "seed", "tags", "task.augment"}
    assert [each.name.tag for each in experiment.metric_infos] == ["train/fitness_mean"]
    asked = api_pb2.ListSessionGroupsRequest(slice_size=9, allowed_statuses=[api_pb2.STATUS_SUCCESS])
    asked.col_params.add().metric.CopyFrom(experiment.metric_infos[0].name)
    found = list_session_groups.Handler(request, plugin, "", asked).run().session_groups
    values = {(group.hparams["algo.sigma"].number_value, group.metric_values[0].value) for group in found}
    assert values == {(0.02, 2.0), (0.5, 3.5)}


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    (tmp_path / "tensorboard").write_text("a file")
    with pytest.raises(UserError, match="tensorboard: cannot be written"):
        TensorBoardLogger().start(tmp_path, {}, None)
