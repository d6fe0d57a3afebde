"""The distillation loss on Gaussian data, where teacher and consistency function are known.

For x0 ~ N(m, d^2) and x_t = (1 - t) x0 + t z the marginal has variance
g^2 = (1 - t)^2 d^2 + t^2; the teacher is D = m + (1 - t) d^2 / g^2 (x - (1 - t) m) and the
consistency function is f = m + d / g (x - (1 - t) m).
"""

import pytest
import torch
from torch import Tensor, nn

from onbeat.models.toybox.config import ToyboxConfig
from onbeat.samplers.distill import consistency
from onbeat.samplers.distill.consistency import Recipe, consistency_loss, euler, huber
from onbeat.samplers.distill.data import Clips

M, D = 0.7, 0.5


def shape(t: Tensor) -> Tensor:
    return t[..., None, None]


def spread(t: Tensor) -> Tensor:
    return ((1 - t).square() * D * D + t.square()).sqrt()


def blended(x: Tensor, x0: Tensor, t: Tensor) -> Tensor:
    """At time zero every network gives back its input."""
    return torch.where(shape(t) == 0, x, x0)


def teacher_x0(x: Tensor, t: Tensor) -> Tensor:
    t = shape(t)
    return M + (1 - t) * D * D / spread(t).square() * (x - (1 - t) * M)


def exact(x: Tensor, t: Tensor, width: Tensor | float = D, mean: Tensor | float = M) -> Tensor:
    t = shape(t)
    return mean + width * (x - (1 - t) * M) / spread(t)


class Student(nn.Module):
    """f with a width and a mean to learn; stands in for both networks."""

    def __init__(self) -> None:
        super().__init__()
        self.config = ToyboxConfig()
        self.width = nn.Parameter(torch.tensor(1.0))
        self.mean = nn.Parameter(torch.tensor(0.0))


def clips(count: int, seed: int) -> Clips:
    g = torch.Generator().manual_seed(seed)
    return Clips(
        audio=M + D * torch.randn(count, 1, 4, 24, generator=g),
        video=M + D * torch.randn(count, 1, 16, 256, generator=g),
        audio_weight=torch.ones(count, 1, 4),
        video_weight=torch.ones(count, 1, 16),
        text=torch.zeros(count, 2, 16, 12, dtype=torch.int64),
        change=torch.ones(count, dtype=torch.int64),
        labels=torch.full((count, 2, 3), -1),
    )


def learn(monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """Width and mean after a short training against the exact teacher."""
    student, teacher = Student(), Student()

    def predict(nets: Student, prompts: object, x: dict, t: dict, *, history: bool) -> dict:  # type: ignore[type-arg]
        if nets is teacher:
            return {n: teacher_x0(x[n], t[n]) for n in x}
        return {n: blended(x[n], exact(x[n], t[n], nets.width, nets.mean), t[n]) for n in x}

    monkeypatch.setattr(consistency, "predict", predict)
    monkeypatch.setattr(consistency, "encode", lambda *_: None)
    optimizer = torch.optim.Adam(student.parameters(), lr=0.05)
    for step in range(120):
        g = torch.Generator().manual_seed(step)
        loss = consistency_loss(student, teacher, Recipe(guidance=1.0), clips(2, step), 2, g)  # type: ignore[arg-type]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(student.width.detach()), float(student.mean.detach())


def test_the_student_learns_the_consistency_function(monkeypatch: pytest.MonkeyPatch) -> None:
    width, mean = learn(monkeypatch)
    assert abs(width - D) < 0.05 and abs(mean - M) < 0.05


def test_a_step_in_the_wrong_direction_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(x: dict, half: dict, x0: dict, times: tuple) -> dict:  # type: ignore[type-arg]
        t, m, s = times
        return {n: x[n] + shape((t[n] - s[n]) / m[n]) * (half[n] - x0[n]) for n in x}

    monkeypatch.setattr(consistency, "midpoint", wrong)
    width, mean = learn(monkeypatch)
    assert abs(width - D) > 0.1 or abs(mean - M) > 0.1


def test_many_small_steps_follow_the_exact_path() -> None:
    x = {"video": torch.randn(2, 1, 1, 16, 256, generator=torch.Generator().manual_seed(0))}
    want = exact(x["video"], torch.ones(2, 1, 1))
    times = torch.linspace(1, 0, 400).tolist()
    for t, s in zip(times[:-1], times[1:], strict=True):
        at, to = ({"video": torch.full((2, 1, 1), u)} for u in (t, s))
        x = euler(x, {"video": teacher_x0(x["video"], at["video"])}, at, to)
    torch.testing.assert_close(x["video"], want, atol=0.02, rtol=0.02)


def test_huber_is_square_near_zero_and_linear_far_away() -> None:
    far = huber(torch.tensor([1.0, 4.0]))
    torch.testing.assert_close(far[1] - far[0], torch.tensor(1.0), atol=0.01, rtol=0)
    near = huber(torch.tensor([1e-6, 4e-6]))
    torch.testing.assert_close(near[1] / near[0], torch.tensor(4.0), atol=0.01, rtol=0)
