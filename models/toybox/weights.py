"""The one weights file of toybox: reading and writing it.

What it is: a safetensors file (bfloat16) with all four parts and, as metadata, the configuration,
the data seed and the commit of the training. What it is not: a training checkpoint.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from onbeat.models.toybox.attributes import AttributeNet
from onbeat.models.toybox.audio_codec import AudioCodec
from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.dit import Denoiser
from onbeat.models.toybox.model import Toybox
from onbeat.models.toybox.text import TextEncoder
from onbeat.models.toybox.video_codec import VideoCodec

PACKAGED = Path(__file__).with_name("toybox.safetensors")
ATTRIBUTES = Path(__file__).with_name("attributes.safetensors")
"""The frozen attribute net: a measuring instrument, never loaded to serve."""
FORMAT = "onbeat-toybox-1"
CHECKSUM = "tensors_sha256"
Part = TypeVar("Part", bound=nn.Module)
DEVICES = ("cpu", "cuda")
KEEP_FLOAT = ("mean", "std")
"""Endings of the names of tensors that stay float32: statistics of the latents."""


def save_weights(parts: Mapping[str, nn.Module], path: Path, metadata: Mapping[str, str]) -> None:
    """Writes parts {denoiser, text, video, audio}; `metadata` has config, data_seed and commit."""
    tensors = {}
    for part, module in parts.items():
        for name, value in module.state_dict().items():
            kept = name.endswith(KEEP_FLOAT)
            tensors[f"{part}.{name}"] = value.to(torch.float32 if kept else torch.bfloat16)
    contiguous = {name: value.contiguous() for name, value in tensors.items()}
    partial = path.with_suffix(".partial")
    facts = {"format": FORMAT, **metadata, CHECKSUM: checksum(contiguous)}
    save_file(contiguous, partial, metadata=facts)
    partial.chmod(0o644)
    partial.replace(path)


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over the names, types, shapes and bytes of tensors in order of their names."""
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def load_toybox(*, weights: Path | None = None, device: str = "cpu") -> Toybox:
    """The model of a weights file, by default the packaged one.

    `device`: "cpu", or a CUDA device (not yet measured there).
    Raises FileNotFoundError if there is none, ValueError for a file of another format or one whose
    tensors are not those that its checksum was taken of, and RuntimeError for tensors that do not
    fit the configuration that the file names.
    """
    if device.partition(":")[0] not in DEVICES:
        raise ValueError(f"device is {device!r}; toybox runs on: {', '.join(DEVICES)}")
    metadata, tensors = _read(weights or PACKAGED)
    config = ToyboxConfig.from_json(metadata["config"])
    denoiser = _filled(Denoiser(config), tensors, "denoiser")
    text = _filled(TextEncoder(config), tensors, "text")
    audio_width = tensors["audio.encoder.0.weight"].shape[0]
    audio = _filled(AudioCodec(width=audio_width), tensors, "audio")
    video = _filled(VideoCodec(), tensors, "video")
    return Toybox(config, denoiser, text, video, audio, device, metadata[CHECKSUM])


def load_video_codec(weights: Path | None = None) -> VideoCodec:
    """The video codec of a weights file in float32, by default of the packaged one."""
    _, tensors = _read(weights or PACKAGED)
    return _filled(VideoCodec(), tensors, "video").eval().requires_grad_(False)


def load_attributes(weights: Path | None = None) -> AttributeNet:
    """The frozen attribute net in float32, by default the packaged one."""
    net = AttributeNet()
    net.load_state_dict({n: t.float() for n, t in load_file(weights or ATTRIBUTES).items()})
    return net.eval().requires_grad_(False)


def save_attributes(net: AttributeNet, path: Path) -> None:
    """In bfloat16."""
    save_file({n: t.to(torch.bfloat16) for n, t in net.state_dict().items()}, path)
    path.chmod(0o644)


def metadata_of(path: Path) -> dict[str, str]:
    """What a weights file says of itself. Raises ValueError for a file of another format."""
    return _read(path)[0]


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Metadata and tensors of a weights file of our format. The first files had no checksum."""
    try:
        opened = safe_open(path, framework="pt")
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file ({error})") from error
    with opened as file:
        metadata: dict[str, str] = file.metadata() or {}
        if metadata.get("format") != FORMAT:
            raise ValueError(f"{path} has format {metadata.get('format')!r}; allowed: {FORMAT!r}")
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    found = checksum(tensors)
    if metadata.get(CHECKSUM, found) != found:
        raise ValueError(f"{path} has checksum {found}; its metadata says {metadata[CHECKSUM]}")
    return {**metadata, CHECKSUM: found}, tensors


def _filled(module: Part, tensors: Mapping[str, Tensor], part: str) -> Part:
    prefix = f"{part}."
    mine = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
    module.load_state_dict(mine)
    return module
