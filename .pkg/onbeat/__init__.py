"""onbeat: a streaming video and audio generation server.

The five packages live at the top of the source tree; in a checkout this package finds them through
links and repoints its search path to the real folders, so that tracebacks show real paths. In an
installed wheel the links have become folders and nothing is repointed.
"""

from pathlib import Path

__version__ = "0.1.0"

_here = Path(__file__).parent
if (_here / "server").is_symlink():
    __path__.insert(0, str(_here.resolve().parents[1]))
