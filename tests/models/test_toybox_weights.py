"""The shipped weights: small, quick to load, whole, and refused if they are damaged."""

import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from onbeat.models.toybox.attributes import AttributeNet
from onbeat.models.toybox.weights import (
    ATTRIBUTES,
    CHECKSUM,
    FORMAT,
    PACKAGED,
    checksum,
    load_attributes,
    load_toybox,
    metadata_of,
    save_attributes,
)

MOST_BYTES = 16_000_000


def test_the_packaged_files_are_small_and_load_quickly() -> None:
    assert PACKAGED.stat().st_size + ATTRIBUTES.stat().st_size <= MOST_BYTES
    began = time.process_time()
    model = load_toybox()
    assert time.process_time() - began < 10.0
    assert model.spec.name == "toybox"


def test_the_metadata_says_where_they_come_from() -> None:
    facts = metadata_of(PACKAGED)
    assert {"config", "data_seed", "commit"} <= set(facts)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(4.0), "b": torch.ones(2, 2, dtype=torch.bfloat16)}
    facts = {"format": FORMAT, CHECKSUM: checksum(tensors)}
    good, bad = tmp_path / "good.safetensors", tmp_path / "bad.safetensors"
    save_file(tensors, good, metadata=facts)
    assert metadata_of(good)[CHECKSUM] == checksum(tensors)
    save_file(tensors | {"a": torch.arange(4.0).flip(0)}, bad, metadata=facts)
    with pytest.raises(ValueError, match="has checksum .*; its metadata says"):
        metadata_of(bad)


def test_the_attribute_net_survives_its_file(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = AttributeNet()
    save_attributes(net, tmp_path / "net.safetensors")
    again = load_attributes(tmp_path / "net.safetensors")
    x = torch.randn(2, 16, 8, 8)
    torch.testing.assert_close(again.embed(x), net.embed(x), rtol=0.05, atol=0.02)
    assert all(t.dtype == torch.bfloat16 for t in load_file(tmp_path / "net.safetensors").values())
