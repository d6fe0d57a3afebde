"""Ahead-of-time compilation of the shipped Triton kernels for Hopper: no GPU and no driver needed.

Asserts what a GPU would be slow on: registers that spill, and more shared memory than there is.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="triton is not installed")

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from onbeat.kernels.consistency_step import triton as consistency_step
from onbeat.kernels.paged_attention import triton as paged_attention
from onbeat.kernels.philox_normal import triton as philox_normal
from onbeat.kernels.rgb_to_i420 import triton as rgb_to_i420
from onbeat.kernels.store_kv import triton as store_kv

SHARED_LIMIT = 227 * 1024
NOISE = {"BLOCK": philox_normal.BLOCK}


def attention(name: str, width: int, tokens: int) -> Any:
    tile = paged_attention.tiles(tokens, width, 4 if name == "fp32" else 2)
    data = dict.fromkeys(("q", "k", "v", "k_pool", "v_pool", "out"), "*" + name)
    types = data | {"page_table": "*i64", "cos": "*fp32", "sin": "*fp32", "scale": "fp32"}
    constants = {
        "HEADS": 6,
        "WIDTH": width,
        "TOKENS": tokens,
        "QUERIES": tile.queries,
        "KEYS": tile.keys,
    }
    options = {"num_warps": tile.warps, **paged_attention.OPTIONS}
    return pytest.param(
        paged_attention.paged_attention_kernel,
        types,
        constants,
        options,
        id=f"paged_attention-{name}-{width}-{tokens}",
    )


def cases() -> Iterator[Any]:
    for width, tokens in ((32, 20), (64, 1560), (128, 1560)):
        yield attention("bf16", width, tokens)
    yield attention("fp32", 32, 20)
    floats = dict.fromkeys(("x", "prediction", "after", "clean"), "*fp32")
    yield pytest.param(
        consistency_step.consistency_step_kernel,
        floats | {"coefficients": "*fp64", "keys": "*i64"},
        NOISE,
        philox_normal.OPTIONS,
        id="consistency_step",
    )
    yield pytest.param(
        philox_normal.philox_normal_kernel,
        {"keys": "*i64", "out": "*fp32"},
        NOISE,
        philox_normal.OPTIONS,
        id="philox_normal",
    )
    yield pytest.param(
        rgb_to_i420.rgb_to_i420_kernel,
        {"frames": "*u8", "out": "*u8"},
        {"BLOCK": rgb_to_i420.BLOCK},
        rgb_to_i420.OPTIONS,
        id="rgb_to_i420",
    )
    pointers = {"k": "*fp32", "v": "*fp32", "k_pool": "*bf16", "v_pool": "*bf16"}
    yield pytest.param(
        store_kv.store_kv_kernel,
        pointers | {"write_pages": "*i64"},
        {"HEADS": 6, "WIDTH": 32, "BLOCK": 256},
        store_kv.OPTIONS,
        id="store_kv",
    )


@pytest.mark.parametrize(("kernel", "types", "constants", "options"), list(cases()))
def test_fits_hopper_without_spills(
    kernel: Any, types: dict[str, str], constants: dict[str, Any], options: Any, tmp_path: Path
) -> None:
    signature = {
        name: "constexpr" if name in constants else types.get(name, "i32")
        for name in kernel.arg_names
    }
    aligned = [i for i, kind in enumerate(signature.values()) if kind.startswith("*")]
    source = ASTSource(
        fn=kernel,
        signature=signature,
        constexprs={(kernel.arg_names.index(name),): value for name, value in constants.items()},
        attrs={(i,): [["tt.divisibility", 16]] for i in aligned},
    )
    built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    registers, stack, local = resources(built.asm["cubin"], tmp_path / "kernel.cubin")
    assert registers <= 255 and stack == local == 0, (registers, stack, local)
    assert built.metadata.shared <= SHARED_LIMIT, built.metadata.shared


def resources(cubin: bytes, path: Path) -> tuple[int, int, int]:
    """Registers, and bytes of stack and local memory per thread (spills live there)."""
    path.write_bytes(cubin)
    tool = triton.knobs.nvidia.cuobjdump.path
    text = subprocess.run(
        [tool, "--dump-resource-usage", str(path)], capture_output=True, text=True, check=True
    ).stdout
    found = [re.search(rf"{name}:(\d+)", text) for name in ("REG", "STACK", "LOCAL")]
    registers, stack, local = (int(match[1]) for match in found if match)
    return registers, stack, local
