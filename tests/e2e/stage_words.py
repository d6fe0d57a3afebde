"""What the latency page calls the stages of a frame's way: read from the page's own table."""

import re
from pathlib import Path

TABLE = Path(__file__).parents[2] / "server" / "api" / "static" / "js" / "shared" / "stages.js"


def stage_words() -> dict[str, str]:
    """Words by stage, in the order of a frame's way."""
    text = TABLE.read_text().partition("STAGE_WORDS = {")[2].partition("}")[0]
    return dict(re.findall(r'(\w+): "([^"]+)"', text))
