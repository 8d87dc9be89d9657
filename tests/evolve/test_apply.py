"""A model is a function of its base and one small file: made again with the same bits, or refused with the hashes that differ."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support.configs import composed
from support.inside import neuro_inside, one_line

from neuro_cli.core.errors import UserError
from neuro_cli.evolve.identity import BASE, INITIAL, canonical, cluster_identity, difference
from neuro_cli.evolve.ledger.ledger import Ledger, origin
from neuro_cli.evolve.ledger.portable import PortableLedger, read_portable, without_path
from neuro_cli.evolve.ledger.record import LedgerRecord, encoded
from neuro_cli.evolve.training.apply import apply_ledger
from neuro_cli.evolve.training.model import apply, frozen_tensors, identity_with_base, snapshot_of, steps_of
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.run_folder.summary import parameters_sha256
from neuro_cli.runner.build import build
from neuro_cli.runner.options import Options
from neuro_cli.selection.base import Scores
from neuro_cli.selection.linear_combination import LinearCombination

TRUST = ["frozen_digits"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Base and ledger of three iterations, as files, and the average of centres at their end."""
    folder = tmp_path_factory.mktemp("trained")
    options = Options(composed("population=8", "batch_size=8", "threads=1", "model._target_=frozen_digits.FrozenDigits",
                               "sampler=sign_flip", "algo.average=0.9", verb="evolve"))  # fmt: skip
    parts = build(options, SingleProcess())
    config, steps = options.plain, steps_of(parts)
    identity = identity_with_base(parts, config)
    ledger = Ledger(origin(canonical(identity)))
    tensors = parts.model.state_dict() | dict(zip(("head.weight", "head.bias"), parts.layout.views(steps.centre), strict=True))
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, folder / "base.safetensors")
    for iteration in range(3):
        scores = [Scores(iteration, 8 * peer + 800, np.linspace(peer, 1, 8) ** 2) for peer in (0, 5)]
        chosen = tuple(LinearCombination(0.1, "pair_z_score").choose(scores, steps.sigma))
        content = encoded(LedgerRecord(iteration, 1, 2, 16, 0.0, 0, ledger.head[:8], chosen, np.zeros(1, np.float32)))
        _, record = ledger.offer(content)
        apply(parts, record, ledger.head)
    assert not torch.equal(steps.solution, steps.centre)
    digest = parameters_sha256(steps.solution)
    saved = PortableLedger(
        identity, without_path(config["model"]), config["sampler"], parts.layout.places[0].channels_last, digest, ledger
    )
    (folder / "tuned.ledger").write_bytes(saved.content())
    assert snapshot_of(parts).tensors["centre"].numel() == 70  # the base is in no message
    parts.threads.close()
    return folder, steps.solution


def test_the_model_is_made_again_with_the_same_bits(trained, tmp_path):
    folder, solution = trained
    line = apply_ledger(folder / "tuned.ledger", folder / "base.safetensors", tmp_path / "again.safetensors", TRUST)
    assert f"iteration 3, parameters {parameters_sha256(solution)[:16]}" in line
    base, again = load_file(folder / "base.safetensors"), load_file(tmp_path / "again.safetensors")
    assert torch.equal(torch.cat([again["head.weight"].ravel(), again["head.bias"]]), solution)
    assert torch.equal(again["base.weight"], base["base.weight"])
    assert not torch.equal(again["head.weight"], base["head.weight"])
    apply_ledger(folder / "tuned.ledger", folder / "base.safetensors", tmp_path / "twice.safetensors", TRUST)
    assert (tmp_path / "twice.safetensors").read_bytes() == (tmp_path / "again.safetensors").read_bytes()
    assert read_portable(folder / "tuned.ledger").ledger.next == 3


@pytest.mark.parametrize(("name", "entry"), [("base.weight", BASE), ("head.bias", INITIAL)])
def test_another_base_is_refused_with_both_hashes(trained, tmp_path, name, entry):
    folder, _ = trained
    other = load_file(folder / "base.safetensors")
    other[name][0] += 1e-7 + other[name][0].abs() * 1e-6
    save_file(other, tmp_path / "other.safetensors")
    wanted = read_portable(folder / "tuned.ledger").identity[entry]
    with pytest.raises(UserError, match=rf"not the base of this ledger: its .* is [0-9a-f]{{64}}, the ledger's {wanted}") as said:
        apply_ledger(folder / "tuned.ledger", tmp_path / "other.safetensors", tmp_path / "again.safetensors", TRUST)
    assert entry in str(said.value)
    assert not (tmp_path / "again.safetensors").exists()


def changed(content: bytes, **fields) -> bytes:
    line, _, rest = content.partition(b"\n")
    return json.dumps(json.loads(line) | fields).encode() + b"\n" + rest


def test_a_file_that_was_changed_is_refused(trained, tmp_path):
    folder, _ = trained
    content = (folder / "tuned.ledger").read_bytes()
    header = json.loads(content.partition(b"\n")[0])
    file = tmp_path / "changed.ledger"
    together = "its settings and its records do not belong together"
    for wrong, line in {
        b"": "no ledger that neuro evolve export",
        b"[" * 100_000: "no ledger that neuro evolve export",
        content.replace(b"neuro portable ledger 1", b"neuro portable ledger 9"): "no ledger that neuro evolve export",
        changed(content, identity=header["identity"] | {"seed": 2}): together,
        changed(content, sampler=header["sampler"] | {"antithetic": False}): together,
        changed(content, model={"_target_": "os.system", "command": "true"}): together,
        changed(content, head="0" * 64): together,
        content[:-3]: "cut short",
        content[:-3] + b"abc": "damaged at iteration 2",
    }.items():
        file.write_bytes(wrong)
        with pytest.raises(UserError, match=line):
            read_portable(file)


def test_code_that_nobody_trusts_is_refused_and_bad_input_is_one_line(trained, tmp_path):
    folder, _ = trained

    def line(*arguments: str) -> str:
        return one_line(neuro_inside("apply", *arguments, cwd=tmp_path))

    ledger, base = str(folder / "tuned.ledger"), str(folder / "base.safetensors")
    assert "model._target_=frozen_digits.FrozenDigits: it runs code of frozen_digits; pass trust=" in line(ledger, base)
    assert line("nowhere.ledger", base) == "nowhere.ledger: no such file or directory"
    assert line(base, base) == f"{base}: no ledger that neuro evolve export RUN file=NAME.ledger wrote"
    trust = "trust=frozen_digits"
    assert line(ledger, "nowhere", trust) == "nowhere: there is no such file or folder"
    assert line(ledger, ledger, trust).startswith(f"{ledger}: no safetensors of this ledger's network: ")
    assert line(ledger, base, trust, "file=net.gguf") == "file=net.gguf: must be a file *.safetensors, as this model is written"
    assert line(ledger, base, trust, f"file={folder}") == f"file={folder}: must be a file *.safetensors, as this model is written"
    assert line(ledger, base, "speed=1").startswith("speed=1: neuro apply takes file, trust")
    assert line(ledger).endswith("usage: neuro apply LEDGER MODEL [key=value ...]")


def test_peers_with_other_frozen_parameters_differ_and_paths_do_not_count():
    config = composed("model=CIF_300K", verb="evolve")
    model = config["model"] | {"path": "/one/model.gguf"}
    one, other = (
        cluster_identity(config | {"model": model | {"path": path}, "task": config["task"] | {"tokenizer": path}}, "a", "b")
        for path in ("/one/model.gguf", "/two/model.gguf")
    )
    assert difference(one, other) is None
    text = difference(one, one | {BASE: "c"})
    assert text == f"{BASE} is b in the cluster, c at the newcomer: give model.path the same file"
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    assert frozen_tensors(module, type("L", (), {"places": []})()) == {}
