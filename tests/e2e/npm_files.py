"""Development tools that are npm packages: pinned, fetched once into a cache, never part of ours.

`axe-core` (MPL-2.0) looks for faults of accessibility, `typescript` checks the JSDoc types.
"""

import shutil
import subprocess
import tarfile
from pathlib import Path

AXE = "axe-core@4.14.1"
TYPESCRIPT = "typescript@5.9.3"
FETCH_SECONDS = 100.0


def fetch(package: str, cache: Path) -> Path:
    """The unpacked files of `name@version`. Raises OSError with the reason if there is no npm or no
    registry."""
    folder = cache / package
    if not folder.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise OSError("npm is not installed")
        unpacked = cache / f"{package}.part"
        shutil.rmtree(unpacked, ignore_errors=True)
        unpacked.mkdir(parents=True)
        command = [npm, "pack", package, "--silent", "--ignore-scripts"]
        run = subprocess.run(
            command, cwd=unpacked, capture_output=True, text=True, timeout=FETCH_SECONDS
        )
        if run.returncode != 0:
            raise OSError(f"npm pack {package}: {run.stderr.strip() or run.stdout.strip()}")
        archive = next(unpacked.glob("*.tgz"))
        with tarfile.open(archive) as tar:
            tar.extractall(unpacked, filter="data")
        archive.unlink()
        unpacked.rename(folder)
    return folder / "package"
