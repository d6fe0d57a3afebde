"""The models that onbeat knows by name.

What it is: names to loaders, imported only when asked for; plug-ins register a loader under the
entry point group `onbeat.models`. What it is not: a downloader.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:  # names are asked for by processes that never load torch
    from onbeat.models.spec import CausalModel

GROUP = "onbeat.models"
Loader: TypeAlias = "Callable[..., CausalModel]"
"""Called with keywords `weights` (a file, or None for the packaged one) and `device`."""

_BUILT_IN = {
    "mirror": "onbeat.models.mirror:load_mirror",
    "toybox": "onbeat.models.toybox.weights:load_toybox",
}


def model_names() -> tuple[str, ...]:
    """All names that `load_model` takes, sorted."""
    return tuple(sorted({*_BUILT_IN, *_plug_ins()}))


def load_model(name: str, *, weights: Path | None = None, device: str = "cpu") -> "CausalModel":
    """Loads a model; ValueError for an unknown name, and whatever its loader raises."""
    return _loader(name)(weights=weights, device=device)


def _loader(name: str) -> "Loader":
    if name in _BUILT_IN:
        module, attribute = _BUILT_IN[name].split(":")
        return cast("Loader", getattr(import_module(module), attribute))
    found = _plug_ins().get(name)
    if found is None:
        raise ValueError(f"model is {name!r}; allowed: {', '.join(model_names())}")
    return cast("Loader", found.load())


def _plug_ins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
