"""Every op comes with a reference, a Triton version, a test and a benchmark of the same name."""

from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPS = sorted(path.parent.name for path in (ROOT / "kernels").glob("*/__init__.py"))


def test_there_are_ops() -> None:
    assert {"paged_attention", "store_kv", "consistency_step", "philox_normal"} <= set(OPS)


@pytest.mark.parametrize("op", OPS)
def test_the_set_is_complete(op: str) -> None:
    for path in (
        f"kernels/{op}/reference.py",
        f"kernels/{op}/triton.py",
        f"tests/kernels/test_{op}.py",
        f"benchmarks/kernels/{op}.py",
    ):
        assert (ROOT / path).is_file(), path
    for name in ("interpreted_cases.py", "test_triton_compiled.py"):
        assert op in (ROOT / "tests/kernels" / name).read_text(), name


@pytest.mark.parametrize("op", OPS)
def test_versions_share_a_signature(op: str) -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    versions = [import_module(f"onbeat.kernels.{op}.{name}") for name in ("reference", "triton")]
    first, second = (signature(getattr(version, op)) for version in versions)
    assert list(first.parameters) == list(second.parameters)
    assert callable(getattr(import_module(f"onbeat.kernels.{op}"), op))
