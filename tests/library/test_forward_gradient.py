"""Gradients by forward passes in the user's own loop: unbiased, the runner's bits, isolated, resumed, on any number of ranks."""

import copy
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support.configs import composed
from support.thread_ranks import on_ranks
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.core.seeds import seeded
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import build, make_model
from neuro_cli.runner.options import Options

cross_entropy = partial(F.cross_entropy, reduction="none")


def mlp(seed: int = 5) -> nn.Module:
    with seeded(seed):  # ranks are threads here, and torch has one generator for all
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def batch(examples: int = 12, seed: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(examples, 6, generator=generator), torch.randint(3, (examples,), generator=generator)


def gradients(model: nn.Module) -> Tensor:
    return torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters()])


def true_gradient(model: nn.Module, loss: Callable[..., Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
    other = copy.deepcopy(model)
    other.zero_grad()
    loss(other(inputs), targets).mean().backward()
    return gradients(other).double()


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("MNIST_10K", {}),
        ("MNIST_10K", {"control_variates": False, "antithetic": True, "draws": 3}),
        ("MLP_270K", {"schedule": "all"}),
    ],
)
def test_a_loop_has_the_bits_of_the_runner(model, options):
    given = [f"sampler.{name}={str(value).lower()}" for name, value in ({"antithetic": False, "draws": 2} | options).items()]
    config = composed(
        f"model={model}",
        "sampler=activation",
        *given,
        "algo.sigma=0.001",
        "batch_size=24",
        "threads=2",
        "device=cpu",
        "generations=9",
    )
    parts = build(Options(config), SingleProcess())
    net = make_model(config)
    estimate = neuro.ForwardGradient(net, sigma=0.001, seed=config["seed"], **options)
    for generation in range(3):
        examples = parts.task.batch(generation, 0, 24)
        net.zero_grad()
        estimate.backward(cross_entropy, examples.inputs, examples.targets)
        scores = parts.distribution.scores(generation, parts.algo.ask(generation))
        sums = parts.distribution.combine(generation, parts.algo.combination(generation, scores[:, 0]))[0]
        views = parts.layout.views(sums)
        assert all(torch.equal(parameter.grad, -view) for parameter, view in zip(net.parameters(), views, strict=True))
    parts.threads.close()


def trained(world=None, steps: int = 4, state=None, module=None, **options) -> Tensor:
    model = module or mlp()
    estimate = neuro.ForwardGradient(model, world=world, threads=1, **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for step in range(steps):
        optimizer.zero_grad()
        estimate.backward(cross_entropy, *batch(12 if step % 3 else 7, step))  # batches of two lengths
        optimizer.step()
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


@pytest.mark.parametrize(
    ("distribution", "options"),
    [
        ("auto", {"correction": "always"}),
        ("auto", {}),
        ("replicated", {"control_variates": False, "antithetic": True}),
        ("chromosome_updates", {"correction": "always"}),
        ("chromosome_updates", {"schedule": "all"}),
    ],
)
def test_ranks_give_the_bits_of_one_process(distribution, options):
    def work(world):
        other = mlp(5 + world.rank)  # rank 0's initial numbers count
        return trained(world, module=other, distribution=distribution, **options)

    alone = trained(**options)
    for size in (2, 3):
        assert all(torch.equal(centre, alone) for centre in on_ranks(size, work))


@pytest.mark.parametrize("distribution", ["replicated", "chromosome_updates"])
def test_ranks_give_the_bits_of_one_process_where_examples_mix(distribution):
    def work(world):
        module = nn.Sequential(mlp(), nn.BatchNorm1d(3, track_running_stats=False))
        return trained(world, module=module, distribution=distribution, control_variates=False)

    alone = work(SingleProcess())
    for size in (2, 3):
        assert all(torch.equal(centre, alone) for centre in on_ranks(size, work))


def test_a_state_resumes_with_the_same_bits(tmp_path):
    def parts():
        model = mlp()
        return model, neuro.ForwardGradient(model, threads=1), torch.optim.Adam(model.parameters(), lr=0.05)

    def run(model, estimate, optimizer, steps):
        for step in steps:
            optimizer.zero_grad()
            estimate.backward(cross_entropy, *batch(12 if step % 3 else 7, step))
            optimizer.step()

    model, estimate, optimizer = whole = parts()
    run(*whole, range(5))
    torch.save([model.state_dict(), estimate.state_dict(), optimizer.state_dict()], tmp_path / "state.pt")
    run(*whole, range(5, 9))
    other = parts()
    for part, state in zip(other, torch.load(tmp_path / "state.pt", weights_only=True), strict=True):
        part.load_state_dict(state)
    assert other[1].generation == 5
    run(*other, range(5, 9))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other[0].parameters(), strict=True))
    with pytest.raises(neuro.ConfigError, match="draws=3: the saved state has 2"):
        neuro.ForwardGradient(mlp(), draws=3).load_state_dict(estimate.state_dict())


def test_gradients_accumulate_and_unused_or_frozen_parameters_get_none():
    model, (inputs, targets) = mlp(), batch()
    model.unused, model.frozen = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.ones(3), requires_grad=False)
    first, second = (neuro.ForwardGradient(model, seed=seed) for seed in (1, 1))
    first.backward(cross_entropy, inputs, targets)
    once = model[0].weight.grad.clone()
    assert model.unused.grad is None
    assert model.frozen.grad is None
    second.backward(cross_entropy, inputs, targets)
    assert torch.allclose(model[0].weight.grad, 2 * once)


@pytest.mark.parametrize("options", [{}, {"schedule": "one"}, {"schedule": "one", "draws": 1, "antithetic": True}])
def test_a_layer_that_no_loss_depends_on_gets_no_gradient_from_corrections(options):
    class Aside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.aside = nn.Linear(5, 3), nn.Linear(5, 2)

        def forward(self, x: Tensor) -> Tensor:
            self.aside(x)
            return self.used(x)

    torch.manual_seed(0)
    model = Aside()
    loss = partial(F.cross_entropy, reduction="none")
    neuro.ForwardGradient(model, correction="always", **options).backward(loss, torch.randn(8, 5), torch.arange(8) % 3)
    assert model.used.weight.grad.any()
    assert not model.aside.weight.grad.any()


def test_nothing_changes_but_the_gradients():
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3))
    model[2].eval()
    inputs, targets = batch()
    before, modes = copy.deepcopy(model.state_dict()), [part.training for part in model.modules()]
    given = inputs.clone(), targets.clone()
    states = torch.get_rng_state(), np.random.get_state()[1].tobytes()
    loss = neuro.ForwardGradient(model).backward(cross_entropy, inputs, targets)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in before.items())
    assert modes == [part.training for part in model.modules()]
    assert torch.equal(inputs, given[0])
    assert torch.equal(targets, given[1])
    assert not vars(inputs)  # no mark of ours
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.random.get_state()[1].tobytes() == states[1]
    assert not loss.requires_grad
    assert all(parameter.grad.grad_fn is None for parameter in model.parameters())
    assert not any(vars(parameter) for parameter in model.parameters())


def test_what_a_script_changes_in_the_model_is_followed():
    """Statistics of batch norm, an attribute, a frozen layer, evaluation mode."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.last, self.factor = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3), 1.0

        def forward(self, x: Tensor) -> Tensor:
            return self.last(torch.tanh(self.norm(self.first(x)))) * self.factor

    model, (inputs, targets) = Scaled(), batch()
    estimate = neuro.ForwardGradient(model)

    def change(what: Callable[[], object]) -> None:
        what()
        with torch.no_grad():
            statistics = copy.deepcopy(model.norm.state_dict())
            right = float(cross_entropy(model(inputs), targets).mean())
            model.norm.load_state_dict(statistics)
        assert float(estimate.backward(cross_entropy, inputs, targets)) == pytest.approx(right, rel=1e-4)

    change(lambda: None)
    change(lambda: setattr(model, "factor", 3.0))
    change(model.eval)
    change(lambda: model.norm.running_mean.add_(2.0))
    change(lambda: model.first.weight.data.mul_(2.0))
    model.zero_grad()
    change(lambda: model.first.requires_grad_(False))
    assert model.first.weight.grad is None
    assert model.last.weight.grad is not None


class Leaky(nn.Module):
    """Three steps of a leaky sum, kept in a buffer that each pass sets back (``stored``) or in a local variable."""

    def __init__(self, stored: bool) -> None:
        super().__init__()
        with seeded(5):
            self.first, self.last, self.stored = nn.Linear(6, 8), nn.Linear(8, 3), stored
        self.register_buffer("potential", torch.zeros(0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        potential, given = torch.zeros(len(x), 8), self.first(x)
        if self.stored:
            self.potential = potential
        for _ in range(3):
            potential = 0.9 * (self.potential if self.stored else potential) + given
            if self.stored:
                self.potential = potential
        return self.last(torch.tanh(potential))


@pytest.mark.parametrize("options", [{}, {"control_variates": False, "draws": 3}])
def test_a_state_that_each_pass_sets_back_counts_as_none(options):
    made = []
    for stored in (True, False):
        net = Leaky(stored)
        estimate = neuro.ForwardGradient(net, sigma=0.01, seed=3, **options)
        for seed, tried in enumerate((5, 12, 7)):
            net(batch(tried)[0])  # the script evaluates its module on batches of other sizes
            estimate.backward(cross_entropy, *batch(seed=seed))
        made.append(gradients(net))
    assert torch.equal(*made)
    assert made[0].abs().max() > 0


def test_losses_of_tokens_are_means_or_credited_to_their_tokens():
    torch.manual_seed(2)
    model = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 9))
    inputs = torch.randint(9, (6, 5))

    def losses(outputs: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(outputs.flatten(0, 1), targets.flatten()).view(targets.shape)

    right = true_gradient(model, losses, inputs, inputs)
    angles = []
    for credit in (None, "own"):
        model.zero_grad()
        options = {"draws": 8, "control_variates": False, "credit": credit}
        neuro.ForwardGradient(model, **options).backward(losses, inputs, inputs)
        angles.append(float(F.cosine_similarity(gradients(model).double(), right, dim=0)))
    assert 0.3 < angles[0] < angles[1]  # a reward a token: less noise


def test_a_loss_of_several_calls_and_several_inputs():
    """A siamese network, and the generator and the discriminator of a GAN."""
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh())
    a, b = batch()[0], batch(seed=4)[0]

    def distance(outputs: tuple[Tensor, Tensor]) -> Tensor:
        return (outputs[0] - outputs[1]).square().sum(1)

    def both(module: nn.Module, inputs: list[Tensor]) -> tuple[Tensor, Tensor]:
        return module(inputs[0]), module(inputs[1])

    estimate = neuro.ForwardGradient(model, forward=both, draws=8)
    for _ in range(3):
        model.zero_grad()
        estimate.backward(distance, [a, b])
    found = gradients(model)
    model.zero_grad()
    distance((model(a), model(b))).mean().backward()
    assert F.cosine_similarity(found, gradients(model), dim=0) > 0.95

    generator, critic = nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    step = neuro.ForwardGradient(generator, draws=16)
    step.backward(lambda fake: -critic(fake)[:, 0], a)
    found = gradients(generator)
    generator.zero_grad()
    (-critic(generator(a))[:, 0]).mean().backward()
    assert F.cosine_similarity(found, gradients(generator), dim=0) > 0.7
    assert all(parameter.grad is not None for parameter in critic.parameters())  # back-propagation's alone
    real_and_fake = neuro.ForwardGradient(critic, forward=both)
    real_and_fake.backward(lambda out: F.softplus(-out[0])[:, 0] + F.softplus(out[1])[:, 0], [a, generator(a)])


def test_inputs_may_be_keywords_and_targets_missing():
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, values: Tensor, mask: Tensor, flag: bool = False) -> dict[str, Tensor]:
            assert flag
            return {"logits": self.layer(values) * mask}

    model, (inputs, _) = Named(), batch()
    mask = torch.ones(12, 1)
    neuro.ForwardGradient(model).backward(
        lambda outputs: outputs["logits"].square().mean(1), {"values": inputs, "mask": mask, "flag": True}
    )
    assert model.layer.weight.grad.abs().sum() > 0


def test_an_error_of_the_loss_is_not_the_inputs():
    estimate = neuro.ForwardGradient(nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 9)))
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):  # that of torch itself
        estimate.backward(
            lambda outputs, targets: (outputs - targets).mean((1, 2)), torch.randint(9, (12, 6)), torch.randn(12, 7)
        )


@pytest.mark.parametrize(
    ("loss", "inputs", "error"),
    [
        (lambda o, t: F.cross_entropy(o, t), None, r"loss_fn: it gave a tensor of shape \(\); needed is one value for each of"),
        (lambda o, t: o[None], None, r"loss_fn: it gave a tensor of shape \(1, \d+, 3\)"),
        (lambda o, t: 3.0, None, "loss_fn: it gave float"),
        (3, None, "loss_fn=int: must be a function"),
        (cross_entropy, torch.randint(5, (12, 6)), "inputs are torch.int64, which Sequential does not take"),
        (cross_entropy, torch.zeros(11, 6), r"tensors of inputs and targets \(11x6, 12\) need the examples"),
        (cross_entropy, "text", r"tensors of inputs and targets \(12\) need the examples"),
        (lambda o, t: cross_entropy(o, t) * float("nan"), None, "the mean loss in step 1 is nan"),
        (lambda o, t: cross_entropy(F.dropout(o), t), None, "draws random numbers"),
    ],
)
def test_wrong_losses_and_inputs_are_one_line_and_leave_no_gradient(loss, inputs, error):
    model, (given, targets) = mlp(), batch()
    with pytest.raises(neuro.UserError, match=error):
        neuro.ForwardGradient(model).backward(loss, given if inputs is None else inputs, targets)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_wrong_models_and_options_are_one_line():
    frozen = mlp().requires_grad_(False)
    for model, options, error in (
        (frozen, {}, "no trainable parameter"),
        (mlp().half(), {}, "must be torch.float32"),
        (nn.DataParallel(mlp()), {}, "model=DataParallel: give the module inside"),
        (nn.Sequential(nn.LazyLinear(3)), {}, "0.weight has no size yet"),
        (torch.zeros(3), {}, "model=Tensor: must be a torch.nn.Module"),
        (mlp(), {"draws": 0}, "draws=0"),
        (mlp(), {"sigma": 0}, "sigma=0"),
        (mlp(), {"space": "x"}, "space=x"),
        (mlp(), {"credit": "x"}, "credit=x"),
        (mlp(), {"correction": "never", "control_variates": False}, "correction=never: needs sampler.control_variates"),
        (mlp(), {"distribution": "semi_updates"}, "distribution=semi_updates: with noise on activations"),
    ):
        with pytest.raises(neuro.UserError, match=error):
            neuro.ForwardGradient(model, **options)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(neuro.ConfigError, match=r"autocast=torch\.bfloat16 on cpu"):
        neuro.ForwardGradient(mlp()).backward(cross_entropy, *batch())
    scripted = nn.Sequential(nn.Linear(6, 5), torch.jit.script(nn.Linear(5, 3)))
    with pytest.raises(neuro.UserError, match=r"a scripted module take no noise; give the module before torch\.jit \(1\)"):
        neuro.ForwardGradient(scripted).backward(cross_entropy, *batch())
    mixing = nn.Sequential(nn.Linear(6, 3), nn.Flatten(0), nn.Unflatten(0, (1, -1)), nn.LazyLinear(3))
    with pytest.raises(neuro.UserError, match="no size yet"):
        neuro.ForwardGradient(mixing)


def test_predictions_alone_make_no_pass_for_a_correction(monkeypatch):
    """Also where they explain little, and a loss without a slope is refused."""
    model, (inputs, targets) = mlp(), batch()

    def gains(*_: object) -> Tensor:
        raise RuntimeError("a correction")

    monkeypatch.setattr("neuro_cli.activation_noise.passes.Passes.gains", gains)
    monkeypatch.setattr("neuro_cli.activation_noise.control_variates.UNEXPLAINED", 0.0)
    with pytest.raises(RuntimeError, match="a correction"):
        neuro.ForwardGradient(model, threads=1).backward(cross_entropy, inputs, targets)
    estimate = neuro.ForwardGradient(model, correction="never", threads=1)
    for _ in range(3):
        model.zero_grad()
        estimate.backward(cross_entropy, inputs, targets)
    made = gradients(model)
    model.zero_grad()
    assert F.cosine_similarity(made, true_gradient(model, cross_entropy, inputs, targets), dim=0) > 0.9
    with pytest.raises(neuro.ConfigError, match=r"correction=never: needs control variates: needs a fitness with a slope"):
        neuro.ForwardGradient(nn.Linear(6, 200), correction="never", threads=1).backward(
            lambda out: out.argmax(1).float(), inputs
        )


@pytest.mark.parametrize(
    ("depth", "groups", "options"),
    [(3, 4, {}), (16, 1, {}), (16, 17, {"correction": "always"}), (16, 17, {"control_variates": False})],
)
def test_noise_is_in_all_layers_of_a_deep_network_at_once_where_corrections_end(depth, groups, options, caplog):
    hidden = [part for _ in range(depth) for part in (nn.Linear(6, 6), nn.Tanh())]
    with caplog.at_level("INFO"):
        network = nn.Sequential(*hidden, nn.Linear(6, 3))
        neuro.ForwardGradient(network, threads=1, **options).backward(cross_entropy, *batch())
    assert f"2 draws of {groups} group" in caplog.text


def test_half_precision_of_the_passes():
    model, (inputs, targets) = mlp(), batch()
    neuro.ForwardGradient(model, precision="bfloat16", draws=8, sigma=0.05).backward(cross_entropy, inputs, targets)
    assert F.cosine_similarity(gradients(model).double(), true_gradient(model, cross_entropy, inputs, targets), dim=0) > 0.5


def test_half_precision_of_images():
    torch.manual_seed(0)
    model, inputs = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)), torch.randn(8, 2, 6, 6)

    def loss(outputs: Tensor) -> Tensor:
        return outputs.float().square().mean(1)

    neuro.ForwardGradient(model, precision="bfloat16", correction="never", threads=1).backward(loss, inputs)
    got = gradients(model).double()
    model.zero_grad()
    loss(model(inputs)).mean().backward()
    assert F.cosine_similarity(got, gradients(model).double(), dim=0) > 0.99


def test_unlike_batches_of_ranks_are_refused_on_all():
    def work(world):
        model = mlp()
        with pytest.raises(neuro.UserError, match="ranks 0 and 1 scored their members on different examples"):
            neuro.ForwardGradient(model, world=world, threads=1).backward(cross_entropy, *batch(12, world.rank))
        return True

    assert on_ranks(2, work) == [True, True]


@pytest.mark.parametrize("algo", [None, "pgpe", "openai_es"])
def test_evolution_takes_the_same_estimate(algo, tmp_path):
    """Its steps learn, on one rank as on two, batches may differ in length, and a state resumes."""

    def fitness(module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        return -cross_entropy(module(inputs), targets)

    chosen = neuro.algo.PGPE(sigma_learning_rate=0.0) if algo == "pgpe" else algo

    def made(world=None):
        return neuro.Evolution(mlp(), sampler="activation", algo=copy.deepcopy(chosen), threads=1, world=world)

    def run(es, steps):
        for step in steps:
            es.step(fitness, *batch(12 if step % 3 else 7, step % 2))
        return es.centre

    whole = made()
    first = whole.step(fitness, *batch(seed=0)).fitness_mean
    for _ in range(20):
        report = whole.step(fitness, *batch(seed=0))
    assert report.fitness_mean > first
    es = made()
    run(es, range(5))
    torch.save(es.state_dict(), tmp_path / "state.pt")
    run(es, range(5, 8))
    other = made()
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    torch.save(other.state_dict(), tmp_path / "again.pt")
    other = made()
    other.load_state_dict(torch.load(tmp_path / "again.pt", weights_only=True))
    assert torch.equal(run(other, range(5, 8)), es.centre)
    for centre in on_ranks(2, lambda world: run(made(world), range(8))):
        assert torch.equal(centre, es.centre)


def test_evolution_with_noise_on_activations_needs_batches():
    es = neuro.Evolution(mlp(), sampler="activation")
    with pytest.raises(neuro.ConfigError, match=r"sampler=activation: needs step\(fitness, inputs, targets\)"):
        es.step(lambda member: 1.0)
    with pytest.raises(neuro.ConfigError, match="its members are passes, not networks"):
        es.ask()
    with pytest.raises(neuro.ConfigError, match="distribution=semi_updates: with noise on activations"):
        neuro.Evolution(mlp(), sampler="activation", distribution="semi_updates")


def test_predictions_are_those_of_the_parameters_of_their_step():
    """Parameters that are drawn again before every step: models of the step before have no part of the gradient."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 20),
                           nn.Tanh(), nn.Linear(20, 3))  # fmt: skip
    estimate = neuro.ForwardGradient(module, draws=1, seed=1, threads=1)
    inputs, targets = torch.randn(32, 1, 8, 8), torch.randint(3, (32,))
    for _ in range(20):
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(torch.randn_like(parameter) / max(1, parameter[0].numel()) ** 0.5)
        module.zero_grad()
        estimate.backward(cross_entropy, inputs, targets)
        right = torch.autograd.grad(F.cross_entropy(module(inputs), targets), list(module.parameters()))
        for parameter, wanted in zip(module.parameters(), right, strict=True):
            assert (parameter.grad - wanted).norm() < 0.01 * wanted.norm()
