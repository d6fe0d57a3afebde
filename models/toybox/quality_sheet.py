"""Contact sheets of generated frames with their prompts.

What it is: a PNG for eyes. What it is not: a measurement.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw
from torch import Tensor

COLUMNS = 8
CAPTION = 26
"""Height of the two lines below a picture, in pixels."""
LINE_LETTERS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """`frame` uint8 [h, w, 3]; `good` colours the caption."""

    frame: Tensor
    caption: str
    good: bool


def _lines(text: str) -> str:
    """Text in at most two lines that fit below a picture."""
    first, second = "", ""
    for word in text.split():
        if not second and len(first) + len(word) < LINE_LETTERS:
            first = f"{first} {word}".strip()
        else:
            second = f"{second} {word}".strip()
    return f"{first}\n{second[:LINE_LETTERS]}"


def write_sheet(tiles: Sequence[Tile], path: Path, columns: int = COLUMNS) -> None:
    """Pictures in rows, each above its prompt: white if all was right, red if not."""
    height, width = tiles[0].frame.shape[:2]
    rows = -(-len(tiles) // columns)
    sheet = Image.new("RGB", (columns * width, rows * (height + CAPTION)), (16, 16, 20))
    draw = ImageDraw.Draw(sheet)
    for k, tile in enumerate(tiles):
        x, y = k % columns * width, k // columns * (height + CAPTION)
        sheet.paste(Image.fromarray(tile.frame.numpy()), (x, y))
        colour = (230, 230, 230) if tile.good else (255, 110, 90)
        draw.text((x + 2, y + height), _lines(tile.caption), fill=colour, font_size=10, spacing=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)
