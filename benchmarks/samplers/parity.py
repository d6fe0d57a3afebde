"""How far one row of ours is from diffusers: every scheduler that we read, every step, same noise.

Per scheduler the largest difference of the next latents, relative to their largest value, over 1 to
8 steps; `drawn` is the number of steps. Both sides start every step from the same latents. Paths on
which diffusers does something else than documented are left out (docs/samplers.md has them): the
last step of TCD, and default grids of the flow-matching schedulers. `equal_tables` repeats those
whose own float32 tables (products of alphas, sigmas) are further off, with ours in float64 instead.
Run: python benchmarks/samplers/parity.py. Prints one JSON line last.
"""

import json
from dataclasses import replace
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from onbeat.samplers.adapters.config import SCHEDULERS, read_sampler
from onbeat.samplers.consistency import start_rows, step_rows
from onbeat.samplers.noise import draw, noise_keys, renoise_step
from onbeat.samplers.paths import alphas_bar
from onbeat.samplers.sampler import Sampler

diffusers: Any = import_module("diffusers")
OWN_TABLES = ("CMStochasticIterativeScheduler", "LCMScheduler", "TCDScheduler")
SHAPE = (1, 16, 96)


class Tokens:
    name, tokens, dim, shift = "video", *SHAPE[1:], 1.0


def set_up(name: str, steps: int) -> tuple[Any, Sampler]:
    """Their scheduler, and our sampler on the same schedule."""
    made = getattr(diffusers, name)()
    config = {**made.config, "_class_name": name}
    if name == "SCMScheduler":
        times = tuple(1.5 * (1.0 - i / steps) for i in range(steps))
        levels: dict[str, Any] = {"max_timesteps": None, "intermediate_timesteps": None}
        made.set_timesteps(steps, timesteps=[*times, 0.0], **levels)
        made.set_begin_index(0)
        return made, read_sampler(config, steps, times)
    if name.startswith("Flow"):
        made.set_timesteps(sigmas=[1.0 - i / steps for i in range(steps)])
    else:
        made.set_timesteps(steps + (name == "MiniMaxH3Scheduler"))
    return made, read_sampler(config, steps)


def compare(theirs: Any, sampler: Sampler, skip_last: bool) -> list[float]:
    """Relative difference of every step."""
    module: Any = import_module(type(theirs).__module__)
    kept, out = getattr(module, "randn_tensor", None), []
    module.randn_tensor = lambda shape, **_: ours(theirs.step_index).view(shape)
    [state] = start_rows([Tokens()], [3], [1], [4], [{"video": sampler}])
    for i, t in enumerate(theirs.timesteps[: sampler.steps - skip_last]):
        x = state.latents["video"][None]
        if hasattr(theirs, "scale_model_input"):
            theirs.scale_model_input(x, t)
        output = torch.tanh(1.3 * x / (1.0 + x.abs().mean()) + 0.1 * i)
        expected = theirs.step(output, t, x, return_dict=False)[0][0]
        [state] = step_rows([state], {"video": output})
        error = (state.latents["video"] - expected).abs().max() / expected.abs().max()
        out.append(float(error))
        state = replace(state, latents={"video": expected.float()})
    module.randn_tensor = kept
    return out


def ours(step: int) -> Tensor:
    return draw(noise_keys([3], [1], [4], 0, [renoise_step(step)]), SHAPE[1:])


def measure(name: str, equal_tables: bool = False) -> dict[str, float]:
    errors = []
    for steps in range(1, 9):
        theirs, sampler = set_up(name, steps)
        if equal_tables and sampler.path.betas is not None:
            products = alphas_bar(sampler.path.betas)
            theirs.alphas_cumprod = torch.tensor(products, dtype=torch.float64)
        elif equal_tables:
            theirs.sigmas = torch.tensor(sampler.times, dtype=torch.float64)
        errors += compare(theirs, sampler, name == "TCDScheduler")
    return {"largest": float(f"{max(errors):.2e}"), "drawn": len(errors)}


def main() -> None:
    diffusers.utils.logging.set_verbosity_error()
    with torch.inference_mode():
        results = {name: measure(name) for name in SCHEDULERS}
        equal = {name: measure(name, True) for name in OWN_TABLES}
    line = {
        "benchmark": "samplers/parity",
        "baseline": f"diffusers {diffusers.__version__}, float32",
        "results": results,
        "equal_tables": equal,
        "float32_rounding": torch.finfo(torch.float32).eps,
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
