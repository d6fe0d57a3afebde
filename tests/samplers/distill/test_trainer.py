"""The trainer: equal bits after a stop, and files that can be trusted."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from onbeat.samplers.distill.rules import recipes
from onbeat.samplers.distill.rules.rule import Batch, Latents, Loss, Models, Moment, Query, Rule
from onbeat.samplers.distill.training import trainer
from onbeat.samplers.distill.training.average import warmed
from onbeat.samplers.distill.training.journal import read
from onbeat.samplers.distill.training.plot import thinned, write_plot
from onbeat.samplers.distill.training.trainer import Plan, Trainer
from tests.samplers.distill.gaussian import Gaussian

DATA = Gaussian(path=recipes.EDM_FROM_MIN.path)


class Net(nn.Module):
    """A small f with dropout and the boundary rule of EDM."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Dropout(0.3), nn.Linear(8, 2))

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        told = t.clamp(min=1e-3).log()[:, None].float() / 4
        out: Tensor = self.body(torch.cat([x / (1 + t[:, None].float()), told], dim=1))
        above = (t[:, None] - 0.002).float()
        return (
            0.25 / (above**2 + 0.25) * x
            + 0.5 * above / (t[:, None].float() ** 2 + 0.25).sqrt() * out
        )


def function(net: nn.Module) -> Callable[[Query], Latents]:
    return lambda query: {"x": net(query.x["x"], query.t["x"])}


def bind(net: nn.Module, average: nn.Module, data: Tensor) -> tuple[Models, Batch]:
    return Models(student=function(net), average=function(average)), Batch(clean={"x": data})


def source(generator: torch.Generator) -> Tensor:
    return DATA.mean + DATA.std * torch.randn(16, 2, generator=generator)


def begin(rule: Rule | None = None, **plan: int | float) -> Trainer[Tensor]:
    torch.manual_seed(5)
    settings = Plan(**({"steps": 12, "rate": 1e-3, "checkpoint_every": 4, "warm_up": 3} | plan))  # type: ignore[arg-type]
    return Trainer(Net(), rule or recipes.ct(20), bind, source, settings, warmed(0.99))


def files(out: Path) -> dict[str, bytes]:
    return {name: (out / name).read_bytes() for name in ("log.jsonl", "run.svg")}


def weights(run: Trainer[Tensor]) -> list[Tensor]:
    return [*run.net.state_dict().values(), *run.average.state_dict().values()]


def test_a_run_that_was_stopped_has_the_bits_of_one_that_was_not(tmp_path: Path) -> None:
    whole, first, second = begin(), begin(), begin()
    whole.run(tmp_path / "whole")
    first.run(tmp_path / "parts", until=7)
    torch.rand(3)  # whatever else a process draws does not matter
    second.run(tmp_path / "parts")
    assert all(torch.equal(a, b) for a, b in zip(weights(whole), weights(second), strict=True))
    assert files(tmp_path / "whole") == files(tmp_path / "parts")


def test_a_run_that_was_cut_off_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    whole, cut = begin(), begin()
    whole.run(tmp_path / "whole")
    calls = 0

    def fails(models: Models, batch: Batch, moment: Moment) -> Loss:
        nonlocal calls
        calls += 1
        if calls > 6:
            raise RuntimeError("power cut")
        return recipes.ct(20)(models, batch, moment)

    cut.rule = fails
    object.__setattr__(cut, "_made_by", whole._made_by)
    with pytest.raises(RuntimeError, match="power cut"):
        cut.run(tmp_path / "cut")
    assert [row["step"] for row in read(tmp_path / "cut/log.jsonl")] == [0, 1, 2, 3, 4, 5]
    again = begin()
    again.run(tmp_path / "cut")
    assert all(torch.equal(a, b) for a, b in zip(weights(whole), weights(again), strict=True))
    assert files(tmp_path / "whole") == files(tmp_path / "cut")


def test_another_plan_or_rule_does_not_go_on(tmp_path: Path) -> None:
    begin().run(tmp_path, until=4)
    begin(checkpoint_every=5).run(tmp_path, until=5)
    with pytest.raises(ValueError, match="'seed': 0.*allowed.*'seed': 1"):
        begin(seed=1).run(tmp_path)
    with pytest.raises(ValueError, match="allowed"):
        begin(recipes.ct(30)).run(tmp_path)


def test_other_seeds_are_other_runs() -> None:
    assert begin().train_step()["loss"] != begin(seed=1).train_step()["loss"]


def test_a_loss_that_is_not_finite_stops_the_run_and_leaves_the_weights() -> None:
    def broken(models: Models, batch: Batch, moment: Moment) -> Loss:
        answer = models.student(Query(x=batch.clean, t={"x": torch.ones(16)}))["x"]
        return Loss(value=answer.sum() * torch.nan)

    run = begin(broken)
    before = [p.clone() for p in run.net.parameters()]
    with pytest.raises(FloatingPointError, match="step 0: loss is nan"):
        run.train_step()
    assert all(torch.equal(a, b) for a, b in zip(before, run.net.parameters(), strict=True))


def test_rates_rise_and_fall() -> None:
    plan = Plan(steps=100, rate=1.0, warm_up=4, fall=0.5)
    assert [plan.rate_at(s) for s in (0, 1, 4, 50)] == [0.2, 0.4, 1.0, 1.0]
    assert abs(plan.rate_at(75) - 0.5) < 1e-9 and plan.rate_at(99) < 0.01


@pytest.mark.parametrize(
    ("field", "value"), [("steps", 0), ("checkpoint_every", 0), ("seed", 2**31), ("fall", 1.5)]
)
def test_plans_name_what_is_wrong(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field}.*allowed"):
        Plan(**({"steps": 5} | {field: value}))  # type: ignore[arg-type]


def test_the_plot_has_a_panel_for_each_number(tmp_path: Path) -> None:
    rows = [{"step": float(i), "loss": 1.0 / (i + 1), "a<b": float(i - 500)} for i in range(1000)]
    write_plot(rows, tmp_path / "run.svg")
    root = ET.parse(tmp_path / "run.svg").getroot()
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    texts = [t.text for t in root.findall("{http://www.w3.org/2000/svg}text")]
    assert len(lines) == 2 and all(len(str(line.get("points")).split()) <= 320 for line in lines)
    assert "logarithmic" in str(texts[0]) and str(texts[1]).startswith("a<b: -49")
    assert thinned([(0.0, 1.0), (1.0, 3.0), (2.0, 7.0)], 2) == [(0.5, 2.0), (2.0, 7.0)]
    with pytest.raises(ValueError, match="rows is empty"):
        write_plot([], tmp_path / "none.svg")


def test_logs_are_plain_lines(tmp_path: Path) -> None:
    begin().run(tmp_path, until=2)
    lines = (tmp_path / trainer.LOG).read_text().splitlines()
    assert set(json.loads(lines[0])) == {"step", "loss", "norm", "rate", "x_error"}
