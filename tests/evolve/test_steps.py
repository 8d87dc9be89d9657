"""The model that steps make: the winner itself, the same bits on any number of threads."""

from functools import partial

import numpy as np
import pytest
import torch
from support.configs import composed
from test_ledger import START

from neuro_cli.algo.centre.optimizer import CentreOptimizer
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.schedule import CONSTANT
from neuro_cli.evolve.identity import difference
from neuro_cli.evolve.ledger.record import MEMBERS, InvalidRecordError, LedgerRecord, decoded, encoded
from neuro_cli.evolve.training.model import (
    apply,
    check_model,
    first_member,
    identity_with_base,
    moved_by,
    restore_snapshot,
    snapshot_of,
    steps_of,
)
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import build
from neuro_cli.runner.options import Options
from neuro_cli.selection.base import Scores, Step
from neuro_cli.selection.linear_combination import LinearCombination
from neuro_cli.selection.maximum import Maximum


def parts_of(*overrides: str):
    parts = build(Options(composed("population=8", "batch_size=8", *overrides, verb="evolve")), SingleProcess())
    check_model(parts)
    return parts


def record(iteration: int, steps: list[Step]) -> LedgerRecord:
    return LedgerRecord(iteration, 1, 1, 8, 0.0, 0, START[:8], tuple(steps), np.zeros(2, np.float32))


@pytest.mark.parametrize("member", [0, 1, 2 * 123456789, MEMBERS - 1])
def test_the_best_member_becomes_the_model_bit_for_bit(member):
    parts = parts_of("threads=1")
    steps, sampler = steps_of(parts), parts.distribution.job.sampler
    plus, minus = torch.empty_like(steps.centre), torch.empty_like(steps.centre)
    scale = torch.tensor([steps.sigma])
    sampler.perturb(steps.centre, scale, 5, member // 2, plus, minus)
    chosen = Maximum().choose([Scores(5, member, np.array([1.0], np.float32))], steps.sigma)
    apply(parts, record(5, chosen), b"head")
    assert torch.equal(steps.centre, minus if member % 2 else plus)
    assert (steps.iteration, steps.head) == (1, b"head")


@pytest.mark.parametrize("sampler", ["iid", "low_rank"])  # tests/sampler has the sums of all
def test_threads_change_no_bit_and_a_step_is_the_sum_of_its_members(sampler):
    found = []
    for threads in (1, 2):
        parts = parts_of(f"threads={threads}", f"sampler={sampler}")
        before = steps_of(parts).centre.clone()
        reports = []
        for peer in ("a", "b"):
            first = first_member(peer, 7, parts)
            reports.append(Scores(7, first, np.linspace(-1, 1, 8, dtype=np.float32) * (1 if peer == "a" else 2)))
        chosen = LinearCombination(0.02, "centred_rank").choose(reports, steps_of(parts).sigma)
        apply(parts, record(7, chosen), b"")
        found.append(steps_of(parts).centre.clone())
    assert torch.equal(found[0], found[1])
    law = parts.distribution.job.sampler
    expected = before.double()
    for step in chosen:
        for number, coefficient in enumerate(step.coefficients.tolist(), step.first):
            direction, sign = law.side(number)
            expected += coefficient * sign * law.explicit(7, direction).double()
    assert torch.allclose(found[0].double(), expected, atol=1e-5)
    parts.threads.close()


def test_the_average_of_centres_is_that_of_neuro_train_and_leaves_the_centre_as_it_is():
    parts, plain = parts_of("threads=1", "algo.average=0.9"), parts_of("threads=1")
    steps = steps_of(parts)
    train = CentreOptimizer(partial(torch.optim.SGD, lr=1.0), CONSTANT, steps.centre.clone(), parts.layout, average=0.9)
    for iteration in range(4):
        step = Step(iteration, 6, np.linspace(-0.3, 0.2, 4, dtype=np.float32), paired=True)
        apply(parts, record(iteration, [step]), b"")
        apply(plain, record(iteration, [step]), b"")
        train.ascend(iteration, moved_by(plain, step))
    assert torch.equal(steps.centre, steps_of(plain).centre)
    assert torch.equal(steps.centre, train.centre)
    assert torch.equal(steps.solution, train.average)
    assert torch.equal(steps_of(plain).solution, steps.centre)
    assert not torch.equal(steps.solution, steps.centre)


def test_a_snapshot_with_an_average_and_one_without_are_of_other_runs():
    parts, plain = parts_of("threads=1", "algo.average=0.9"), parts_of("threads=1")
    for one, other in ((parts, plain), (plain, parts)):
        with pytest.raises(UserError, match="a snapshot does not fit the model"):
            restore_snapshot(one, snapshot_of(other))
    identities = [identity_with_base(each, each.config.plain) for each in (parts, plain)]
    assert difference(*identities) == "algo.average is 0.9 in the cluster, None at the newcomer"
    assert "algo.average" not in identities[1]  # as in ledgers of earlier versions


def test_a_step_of_pairs_has_the_bits_of_the_same_step_of_members_and_half_its_bytes():
    coefficients = np.linspace(-0.3, 0.2, 4, dtype=np.float32)
    members = np.stack([coefficients, -coefficients], axis=1).ravel()
    steps = Step(7, 2**33 - 10, coefficients, paired=True), Step(7, 2**33 - 10, members)
    centres, sizes = [], []
    for step in steps:
        parts = parts_of("threads=1")
        content = encoded(record(7, [step]))
        sizes.append(len(content))
        apply(parts, decoded(content), b"")
        centres.append(steps_of(parts).centre)
    assert torch.equal(*centres)
    assert sizes[1] - sizes[0] == 15  # four coefficients of four bytes less, a mark more
    for wrong in (Step(7, 1, coefficients, paired=True), Step(7, 2**33 - 8, coefficients, paired=True)):
        with pytest.raises(InvalidRecordError):
            decoded(encoded(record(7, [wrong])))


def test_an_address_leads_to_the_examples_of_its_own():
    parts = parts_of("threads=1", "layout=per_example", "sampler=low_rank", "sampler.antithetic=true")
    steps, job = steps_of(parts), parts.distribution.job
    first = first_member("a peer", 3, parts)
    assert first > 2**20
    found = job.scorer.scores(steps.proposal(), 3, range(first, first + 8))
    for row, member in enumerate(range(first, first + 8)):
        direction, sign = job.sampler.side(member)
        module = parts.distribution.job.scorer.settings.module_at(
            steps.centre + sign * steps.sigma * job.sampler.explicit(3, direction)
        )
        batch = parts.task.batch(3, 2 * direction, 2 * direction + 2)  # eight examples of four directions
        np.testing.assert_allclose(found[row], parts.task.score(module, batch), rtol=1e-4, atol=1e-4)
    assert not torch.equal(parts.task.batch(3, 2 * first, 2 * first + 8).inputs, parts.task.batch(3, 0, 8).inputs)
    parts.threads.close()


def test_what_compares_members_needs_examples_that_all_share_and_pairs_need_pairs():
    alone = ("sampler.antithetic=false",)
    with pytest.raises(ConfigError, match="selection=max: compares members that have different examples here"):
        check_model(parts_of("threads=1", "layout=per_example"), Maximum())
    with pytest.raises(ConfigError, match=r"sampler.antithetic=False: selection.shaping shapes mirrored pairs: true"):
        check_model(parts_of("threads=1", *alone), LinearCombination(0.02, "pair_rank"))
    check_model(parts_of("threads=1"), LinearCombination(0.02, "pair_rank"))


def test_addresses_are_a_peers_own_and_in_range():
    parts = parts_of("threads=1")
    firsts = [first_member(f"{peer}", iteration, parts) for peer in range(50) for iteration in range(50)]
    assert len(set(firsts)) == len(firsts)
    assert all(0 <= first <= MEMBERS - 8 and first % 2 == 0 for first in firsts)
    assert first_member("a", 1, parts) == first_member("a", 1, parts)
