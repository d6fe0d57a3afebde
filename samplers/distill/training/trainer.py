"""The trainer: a rule, a network and a source of data, for a number of steps.

Everything random in step k comes from one generator seeded by (seed, k): on one thread a run that
was stopped and resumed has the same weights, log and plot, to the bit, as one that was not. What it
is not: a rule, a data set, or a clock.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from onbeat.samplers.distill.rules.rule import Batch, Models, Moment, Rule
from onbeat.samplers.distill.training import checkpoint
from onbeat.samplers.distill.training.average import Decay, update
from onbeat.samplers.distill.training.journal import Journal, read
from onbeat.samplers.distill.training.plot import write_plot

Data = TypeVar("Data")
Source = Callable[[torch.Generator], Data]
"""One batch of data, a pure function of the generator."""
Bind = Callable[[nn.Module, nn.Module, Data], tuple[Models, Batch]]
"""(network, average of its weights, data) -> the functions and the batch of a rule: conditions
(prompts, histories, a teacher) are bound here."""

STATE, LOG, PLOT = "state.pt", "log.jsonl", "run.svg"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long and how fast. warm_up: steps of linear rise. fall: share of the run, at its end, in
    which the rate falls to 0 along a cosine. clip: of the gradient's norm."""

    steps: int
    seed: int = 0
    rate: float = 1e-4
    warm_up: int = 0
    fall: float = 0.0
    optimizer: Literal["adamw", "radam"] = "adamw"
    betas: tuple[float, float] = (0.9, 0.99)
    clip: float = math.inf
    checkpoint_every: int = 1000

    def __post_init__(self) -> None:
        if self.steps < 1 or self.checkpoint_every < 1:
            worst = min(self.steps, self.checkpoint_every)
            raise ValueError(f"steps or checkpoint_every is {worst}; allowed: 1 or more")
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"seed is {self.seed}; allowed: 0 to 2^31 - 1")
        if not 0.0 <= self.fall <= 1.0:
            raise ValueError(f"fall is {self.fall}; allowed: 0 to 1")

    def rate_at(self, step: int) -> float:
        rise = min(1.0, (step + 1) / (self.warm_up + 1))
        begin = self.steps * (1.0 - self.fall)
        late = max(0.0, (step - begin) / (self.steps - begin)) if self.fall else 0.0
        return self.rate * rise * 0.5 * (1.0 + math.cos(math.pi * late))


def step_generator(seed: int, step: int) -> torch.Generator:
    """Of one step. Hashed to 32 bits: of a larger seed torch's CPU generator drops the rest."""
    mixed = np.random.SeedSequence((seed, step)).generate_state(1)
    return torch.Generator().manual_seed(int(mixed[0]))


class Trainer(Generic[Data]):
    """Owns the network in training, the average of its weights, and the optimiser's state."""

    def __init__(
        self,
        net: nn.Module,
        rule: Rule,
        bind: Bind[Data],
        source: Source[Data],
        plan: Plan,
        decay: Decay,
    ) -> None:
        self.net, self.average = net, copy.deepcopy(net).requires_grad_(False)
        self.rule, self.bind, self.source = rule, bind, source
        self.plan, self.decay, self.step = plan, decay, 0
        kind = {"adamw": torch.optim.AdamW, "radam": torch.optim.RAdam}[plan.optimizer]
        trained = [p for p in net.parameters() if p.requires_grad]
        self.optimizer = kind(trained, lr=plan.rate, betas=plan.betas, weight_decay=0.0)

    def train_step(self) -> dict[str, float]:
        """One step; its row of the log. Raises FloatingPointError for a loss or gradient that is
        not finite, before the weights are touched."""
        generator = step_generator(self.plan.seed, self.step)
        models, batch = self.bind(self.net, self.average, self.source(generator))
        moment = Moment(step=self.step, steps=self.plan.steps, generator=generator)
        loss = self.rule(models, batch, moment)
        self.optimizer.zero_grad()
        loss.value.backward()
        norm = self._clipped()
        value = float(loss.value.detach())
        if not math.isfinite(value + norm):
            raise FloatingPointError(f"step {self.step}: loss is {value}, gradient norm {norm}")
        rate = self.plan.rate_at(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        update(self.average, self.net, self.decay(self.step))
        row = {"step": self.step, "loss": value, "norm": norm, "rate": rate}
        self.step += 1
        return row | {name: float(metric) for name, metric in loss.metrics.items()}

    def run(self, out: Path, until: int | None = None) -> None:
        """Trains to the plan's end, or to step `until`, from the checkpoint in `out` if there is
        one; leaves state.pt, log.jsonl and run.svg there.

        Raises ValueError if the checkpoint is of another plan or rule.
        """
        out.mkdir(parents=True, exist_ok=True)
        if (out / STATE).exists():
            self.load(out / STATE)
        end = self.plan.steps if until is None else min(until, self.plan.steps)
        journal = Journal(out / LOG, self.step)
        try:
            while self.step < end:
                journal.add(self.train_step())
                if self.step % self.plan.checkpoint_every == 0 or self.step == end:
                    journal.flush()
                    self.save(out / STATE)
        finally:
            journal.close()
        write_plot(read(out / LOG), out / PLOT)

    def save(self, path: Path) -> None:
        state = {
            "step": self.step,
            "net": self.net.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "made_by": self._made_by(),
        }
        checkpoint.save(state, path)

    def load(self, path: Path) -> None:
        state = checkpoint.load(path)
        if state["made_by"] != self._made_by():
            raise ValueError(
                f"{path} is of {state['made_by']}; allowed: {self._made_by()}, or an empty folder"
            )
        self.net.load_state_dict(state["net"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]

    def _made_by(self) -> dict[str, Any]:
        """What has to be equal for a run to go on; how often it is saved need not be."""
        plan = {k: v for k, v in asdict(self.plan).items() if k != "checkpoint_every"}
        return {"plan": plan, "rule": repr(self.rule)}

    def _clipped(self) -> float:
        """Norm of the gradient, before it was clipped."""
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        norm: Tensor = torch.nn.utils.clip_grad_norm_(parameters, self.plan.clip)
        return float(norm)
