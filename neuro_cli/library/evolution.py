"""Evolution of a module in the user's own loop: by a fitness function, or by ask and tell."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.activation_noise.estimator import Activation
from neuro_cli.algo.base import PopulationAlgorithm, Proposal, State
from neuro_cli.algo.step_size.auto import AUTO
from neuro_cli.core.checks import boolean, integer, one_of
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.layout import ParameterLayout, writing
from neuro_cli.core.machine.threads import Modes, threads_kept
from neuro_cli.core.messages.did_you_mean import suggesting
from neuro_cli.core.module.copies import own_memory, state_of
from neuro_cli.core.module.precision import PRECISIONS
from neuro_cli.distribution.base import Distribution, StepReport
from neuro_cli.fabric.base import World
from neuro_cli.fabric.network import Network
from neuro_cli.fabric.shares import shares
from neuro_cli.library.by_form import ByForm, fit_inputs, scorer_of
from neuro_cli.library.candidates import Best, Candidates, best_of_all, fitnesses_of
from neuro_cli.library.changes import Changes
from neuro_cli.library.fitness import Fitness, FitnessTask
from neuro_cli.library.loop import Loop, one_at_a_time, refuse_other, report_other_steps, settings_of, steps_of
from neuro_cli.library.loop_folder import TASK, LoopFolder, Test, best_of, pace_of
from neuro_cli.library.loop_numbers import form_of, numbers_of, refuse_other_numbers, shapes_of
from neuro_cli.library.named import model_of, option, saved_nodes
from neuro_cli.library.same_module import share_initial
from neuro_cli.library.scorer import FitnessScorer, agreed, refuse_unlike
from neuro_cli.logger.base import Logger
from neuro_cli.runner.bind import Numbers, Population, bind
from neuro_cli.runner.config import LAYOUTS
from neuro_cli.runner.consensus import collectively
from neuro_cli.runner.gains import choose_open
from neuro_cli.sampler.base import Estimator, Sampler
from neuro_cli.scoring.base import Scorer, ScoringSettings
from neuro_cli.scoring.jobs import write_members


@suggesting
class Evolution(Loop):
    """Evolution strategy that trains a module without back-propagation, in the user's own loop.

    ``algo``, ``sampler``, ``distribution`` and ``fabric`` are names of options of the command line, or objects. Under an MPI
    launcher all ranks run the same script and share the population; initial parameters are rank 0's. Raises ConfigError.

    - ``module``: an ``nn.Module``; a vector (M,); a config, {"_target_": "my_package.Net", ...}; or the name of an option.
    - ``algo``: None for openai_es, or forward_gradient with ``sampler="activation"``. That sampler sets the population itself,
      and its :meth:`step` needs inputs and targets.
    - ``population``: members per generation. ``seed``: the noise's, in [0, 2**64).
    - ``sigma``, ``optimizer`` (a class of ``torch.optim``), ``lr``: replace those of an ``algo`` given by name. ``lr`` may be a
      function of the generation, 0, 1, 2, ... "auto" for ``sigma`` or ``lr``: chosen at the first step.
    - ``generations``: length of the algorithm's schedules; None: no schedules.
    - ``layout``: shared_batch, or per_example, where each direction of noise has its own share of the batch.
    - ``precision`` of the forward passes: float32 | bfloat16; None: the type of the parameters. Parameters in bfloat16 stay so:
      updates are summed in float32 and rounded at random, so that the mean is exact.
    - ``threads``: members that a rank scores at the same time; the threads call the fitness function concurrently. None: the
      machine's cores over its ranks.
    - ``shared_pass``: one forward pass answers many members, where the module allows it; None: on a GPU.
    - ``minimise``: a lower fitness is better. ``world``: the ranks; None: the launcher's.
    - ``folder``: a run folder, written by rank 0. A folder of an Evolution with the same arguments is resumed.
    - ``tests``: functions of the module in evaluation mode, by the names of their columns in the folder.
    - ``logger``: one more than ``metrics.csv``. ``checkpoint``: {"every": 50, "keep": 3}. ``evaluate``: {"every": 10},
      generations between tests.
    """

    def __init__(
        self,
        module: nn.Module | Tensor | str | Mapping[str, Any],
        *,
        algo: str | PopulationAlgorithm | None = None,
        sampler: str | Estimator = "antithetic",
        distribution: str | Distribution = "auto",
        fabric: str | Network = "native",
        population: int = 128,
        seed: int = 1,
        sigma: float | str | None = None,
        optimizer: Any = None,
        lr: float | str | Callable[[int], float] | None = None,
        generations: int | None = None,
        layout: str = "shared_batch",
        precision: str | None = None,
        threads: int | None = None,
        shared_pass: bool | None = None,
        minimise: bool = False,
        world: World | None = None,
        folder: str | Path | None = None,
        logger: str | Logger = "csv",
        tests: Mapping[str, Test] | None = None,
        checkpoint: Mapping[str, Any] | None = None,
        evaluate: Mapping[str, Any] | None = None,
    ) -> None:
        self._sign = -1.0 if boolean("minimise", minimise) else 1.0
        seed = integer("seed", seed, 0, 2**64 - 1)
        own, node = model_of(module, seed)
        population = integer("population", population, 1, 2**32 - 1)
        if generations is not None:
            generations = integer("generations", generations, 1)
        if threads is not None:
            threads = integer("threads", threads, 1)
        one_of("layout", layout, LAYOUTS)
        stored = ParameterLayout(own)
        precision = one_of("precision", precision or str(stored.dtype).removeprefix("torch."), tuple(PRECISIONS))
        values = {"sigma": sigma, "optimizer": optimizer, "lr": lr}
        self._sampler = option("sampler", sampler, Estimator, generations)
        if algo is None:
            algo = "forward_gradient" if isinstance(self._sampler, Activation) else "openai_es"
        self._algo = option("algo", algo, PopulationAlgorithm, generations, values)
        self._sampler.check(population)
        method = self._connect(distribution, fabric, world, generations)
        self._distribution, self._module, self._subject = method, own, type(own).__name__
        self._claim(algo=self._algo, sampler=self._sampler, distribution=method)
        self._numbers = Numbers(seed, population, layout == "per_example", PRECISIONS[precision])
        self._settings = settings_of(self._numbers, self._algo, self._sampler, stored)
        device = next(own.parameters()).device
        self._shared_pass = device.type != "cpu" if shared_pass is None else boolean("shared_pass", shared_pass)
        self._start_threads(threads, device)
        self._task = FitnessTask(self._numbers.precision, self._sign)
        self._population: Population | None = None
        self._changes: Changes | None = None
        self._asked: Proposal | None = None
        self._asks = False
        self._forms: ByForm | None = None
        self._loaded: dict[str, Any] | None = None  # state that the first step with noise on activations takes
        if isinstance(self._sampler, Activation):
            parts = (self._task, self._algo, self._sampler, method, self.world, self._threads, self._numbers)
            self._forms = ByForm(self._form, *parts)
        self.best: Best | None = None  # best of the candidates whose fitnesses tell() was given
        low, high = shares(population, self.world.size)[self.world.rank]
        self.members = range(low, high)  # this rank's
        self._modes = [part.training for part in own.modules()]  # kept now: a script may evaluate the module between steps
        own_memory(state_of(own))
        share_initial(own, self.world)
        self._folder: LoopFolder | None = None
        if folder is None:
            if logger != "csv" or tests or checkpoint or evaluate:
                raise ConfigError("folder", None, "logger, tests, checkpoint and evaluate are of a run folder: name one")
            return
        chosen = {"sampler": sampler, "distribution": distribution, "fabric": fabric, "logger": logger}
        config = saved_nodes(generations, (algo, values), **chosen) | pace_of(checkpoint, evaluate) | {
            "model": node, "task": {"_target_": TASK, "sign": self._sign}, "seed": seed, "generations": generations,
            "population": population, "batch_size": 1, "layout": layout, "precision": precision,
            "weights": str(stored.dtype).removeprefix("torch."), "device": str(device), "threads": threads, "ranks": None,
            "time_limit": None,
        }  # fmt: skip
        typed = {"algo": algo, "sampler": sampler, "seed": seed, "population": population, "sigma": sigma, "lr": lr}
        kind = option("logger", logger, Logger, generations)
        self._folder = LoopFolder(Path(folder), config, typed, tests or {}, kind, self.world)
        if (last := self._folder.checkpoint) is not None:
            self.generation, self.best = last.generation, best_of(last)
            self._take({"tensors": last.tensors, "scalars": last.scalars})
            if self._population is not None:
                report_other_steps("folder", last.scalars.get("steps", {}), steps_of(self._algo, self.generation))

    @property
    def module(self) -> nn.Module:
        """Module of the user, with the present solution as its parameters."""
        return self._module

    @property
    def centre(self) -> Tensor:
        """Present solution (M,) float32 of Evolution, a copy, in the order of ``module.parameters()``."""
        evolved = [parameter.detach().reshape(-1) for parameter in self._module.parameters() if parameter.requires_grad]
        return torch.cat(evolved).float()

    @one_at_a_time
    def step(self, fitness: Fitness, inputs: Tensor | None = None, targets: Tensor | None = None) -> StepReport:
        """Run a generation: score all members by ``fitness``, higher is better (without ``minimise``), and move the module.

        ``fitness(member)`` gives a number, or a value for each example; with ``inputs`` (B, ..) and ``targets`` (B, ..),
        ``fitness(member, inputs, targets)`` gives a value for each of B examples. Several threads call it concurrently, without
        gradients, with dropout off and the batch's own statistics in batch norm. Raises what it raises (on several ranks a
        UserError, on all), UserError for another shape, CandidateError for a number that is not finite. After an error the
        generation does not count.
        """
        self._asked = None
        modes = Modes.present()
        if self._forms is not None:
            return self._step_by_passes(self._forms, fitness, inputs, targets, modes)
        with threads_kept():
            with collectively(self.world):
                self._task.take(fitness, inputs, targets, modes)
            if self._population is None:
                form = self._form()
                with agreed(self.world):
                    self._task.misfit(form)
                self._begin(form)
            elif self._changes is not None:
                self._changes.follow(self.world)
            assert self._population is not None
            distribution = self._population.distribution
            self._task.fit(distribution, self._sampler.directions, self._numbers.per_example)
            choose_open(self._population, self.generation)
            self._record(inputs)
            return self._done(distribution.step(self.generation))

    def _step_by_passes(
        self, forms: ByForm, fitness: Fitness, inputs: Tensor | None, targets: Tensor | None, modes: Modes
    ) -> StepReport:
        """Run a generation with noise on activations: each example's value rewards its own noise."""
        with threads_kept():
            with collectively(self.world):
                inputs = fit_inputs(inputs, modes)
                self._task.take(fitness, inputs, targets, Modes(device=modes.device))
            refuse_unlike(self._task, self.world)
            if self._changes is not None:
                self._changes.follow(self.world)
            with agreed(self.world):
                if self._population is None:
                    self._task.misfit(self._form())
                    self._task.keep_format(self._loaded and self._loaded["scalars"])
                assert targets is not None
                form = (inputs.shape, inputs.dtype, targets.shape, targets.dtype)
                self._population = forms.at(form)
                self._changes = self._changes or Changes(self._module, self._population)
            if self._loaded is not None:
                self._population.restore(copy.deepcopy(State(self._loaded["tensors"], self._loaded["scalars"])))
                self._loaded = None
                self._changes.follow(self.world)  # a script may have written since the state was loaded
            self._record(inputs)
            scorer, method = scorer_of(self._population), self._population.distribution
            try:
                with agreed(self.world):
                    own = method.own_scores(self.generation, self._algo.ask(self.generation))
                return self._done(method.tell(self.generation, own))
            finally:
                scorer.release()

    @one_at_a_time
    def ask(self) -> Candidates:
        """Return this rank's share of the next generation's members, for :meth:`tell`."""
        if self._forms is not None:
            raise ConfigError("sampler", "activation", "its members are passes, not networks: use step(fitness, inputs, targets)")
        if self._algo.auto is not None and self._algo.auto.gains is None:
            raise ConfigError(self._algo.auto.keys.split()[0], AUTO, "is measured by step(fitness); ask() needs a number")
        assert isinstance(self._sampler, Sampler)
        with threads_kept():
            if self._population is None:
                self._task.memory_format = torch.contiguous_format  # what every module takes
                self._begin()
            elif self._changes is not None:
                self._changes.follow(self.world)
            self._record(None)
            self._asked = self._algo.ask(self.generation)
        assert self._population is not None
        watch, self._asks = not self._asks, True
        parts = self._population, self._sampler, self._asked, self.generation, self.members
        return Candidates(*parts, lambda: self.generation, watch)

    @one_at_a_time
    def tell(self, fitnesses: Sequence[float] | np.ndarray | Tensor) -> StepReport:
        """Move the module by the fitnesses (n,) of :meth:`ask`'s candidates, in order; higher is better without ``minimise``.

        Every rank calls this with its own. Raises UserError for another number of them, CandidateError where one is not finite.
        """
        with threads_kept():
            with collectively(self.world):
                if self._asked is None:
                    raise UserError("tell: ask() comes first, and gives the candidates of the next generation")
                scores = fitnesses_of(fitnesses, len(self.members))
            assert self._population is not None
            assert self._changes is not None
            self._changes.refuse_written(self.world)
            scores *= self._sign
            better = self._better(scores)
            report = self._population.distribution.tell(self.generation, scores[:, None])
            self.best, self._asked = better or self.best, None
            return self._done(report)

    def _better(self, scores: np.ndarray) -> Best | None:
        """Return the best candidate of all ranks, None if :attr:`best` is as good; ``scores`` (n,): fitnesses of this rank's."""
        highest, member = best_of_all(scores, self.members, self.world)
        if not np.isfinite(highest) or (self.best is not None and highest <= self._sign * self.best.fitness):
            return None
        assert self._population is not None
        assert self._asked is not None
        assert isinstance(self._sampler, Sampler)
        vector = torch.empty(1, self._population.layout.size, device=self._population.device, dtype=torch.float32)
        write_members(self._sampler, self._asked, self.generation, range(member, member + 1), vector)
        return Best(self._sign * highest, self._population.layout.in_order(vector)[0], self.generation)

    def _done(self, report: StepReport) -> StepReport:
        assert self._changes is not None
        self._changes.refuse_written(self.world)
        self._load_centre()
        self.generation += 1
        if self._sign < 0:
            report = replace(report, fitness_mean=-report.fitness_mean, fitness_best=-report.fitness_best)
        if self._folder is not None:
            self._folder.complete(report, self.generation, self.best)
        return report

    def _record(self, inputs: Tensor | None) -> None:
        """Begin a generation of the run folder."""
        if self._folder is not None:
            assert self._population is not None
            self._folder.begin(self._population, self._module, inputs, self.generation)

    def close(self) -> None:
        """End the threads of Evolution, and finish its run folder: every rank calls this. The module stays as it is."""
        folder, self._folder = self._folder, None
        try:
            if folder is not None:
                with threads_kept():
                    folder.finish(self.generation, self.best)
        finally:
            super().close()

    def __exit__(self, *raised: object) -> None:
        error = raised[1]
        if isinstance(error, BaseException) and self._folder is not None:
            self._folder.fail(error)  # nothing more is agreed on with other ranks, which may have no error
            self._folder = None
        self.close()

    def _load_centre(self) -> None:
        assert self._population is not None
        self._population.layout.load(self._module, self._population.algo.solution)

    def _form(self) -> nn.Module:
        """Return a copy of the module to bind, with hooks on its input where ranks, precision or memory format need them."""
        self._settings["parameters"] = ParameterLayout(self._module).size  # a script may freeze parameters between steps
        form = form_of(self._module, self._settings.get("weights", "float32"), self._modes, self.world)
        float32 = self._numbers.precision == torch.float32
        if self.world.size > 1 or not float32 or any(parameter.dim() == 4 for parameter in form.parameters()):
            self._task.watch(form, compare=self.world.size > 1)
        return form

    def _begin(self, form: nn.Module | None = None) -> None:
        def scorer(settings: ScoringSettings, centre: Tensor) -> Scorer:
            return FitnessScorer(settings, centre, self.world, self._shared_pass)

        with threads_kept(), collectively(self.world):
            self._population = bind(
                form or self._form(), self._task, self._algo, self._sampler, self._distribution, self.world, self._threads,
                self._numbers, scorer,
            )  # fmt: skip
            self._changes = Changes(self._module, self._population)

    def state_dict(self) -> dict[str, Any]:
        """Return tensors and values from which :meth:`load_state_dict` resumes Evolution with the same bits on any rank count.

        With a rounding ``wire`` every rank must call this, and only rank 0's state is complete.
        """
        state = {**self._state(), "shapes": shapes_of(self._module), "optimizer": self._algo.optimizer}
        if self.best is not None:
            state["best"] = {**self.best._asdict(), "vector": self.best.vector.clone()}
        if self._population is not None:
            state["steps"] = steps_of(self._algo, self.generation)
        with threads_kept():
            return state | numbers_of(self._population, self._loaded, self._module)

    @one_at_a_time
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume Evolution from ``state``, which ``torch.load(path, weights_only=True)`` can read. Every rank calls this.

        Another sigma or learning rate than the state's is reported and used. Raises ConfigError for the state of another
        population, sampler, algorithm, optimizer or module.
        """
        with collectively(self.world):
            self._settings["parameters"] = ParameterLayout(self._module).size
            refuse_other(self._settings, state, absent="float32")  # states of before modules in bfloat16 name no weights
            refuse_other_numbers(state, self._module, self._algo.optimizer)
        if self._folder is not None:
            raise ConfigError("folder", "given", "its checkpoints are the state: load_state_dict is for an Evolution without one")
        self._asked, self._population, self._changes, self._loaded = None, None, None, None
        if self._forms is not None:
            self._forms.clear(begun=False)
        self.generation = int(state["generation"])
        self.best = Best(**state["best"]) if "best" in state else None
        if "module" in state:
            with writing(state_of(self._module)):
                self._module.load_state_dict(state["module"])
            return
        self._take(state)
        if self._population is not None:
            report_other_steps("load_state_dict", state.get("steps", {}), steps_of(self._algo, self.generation))

    def _take(self, state: dict[str, Any]) -> None:
        """Take the tensors and scalars of a state or a checkpoint."""
        self._task.keep_format(state["scalars"])
        if self._forms is not None:  # passes are bound to the form of the next batch
            self._loaded = {"tensors": copy.deepcopy(state["tensors"]), "scalars": copy.deepcopy(state["scalars"])}
            ParameterLayout(self._module, state["scalars"]["channels_last"]).load(self._module, state["tensors"]["parameters"])
            return
        if self._numbers.per_example:
            self._task.batch_size = self._numbers.population  # any that the directions share out; each step says its own
        with threads_kept():
            self._begin()
            assert self._population is not None
            # copied: a user's own part may keep what it is given
            self._population.restore(copy.deepcopy(State(state["tensors"], state["scalars"])))
            self._load_centre()
