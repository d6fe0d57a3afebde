"""The text encoder of toybox: words to 16 slots and one pooled vector.

What it is: a learned table of the words that scenes are described with, hash buckets of letter
triples for all other words, and one mixing layer. What it is not: a language model; it knows
colours, shapes, places and motions, and says which words it knew (prompts.recognise).
"""

import zlib
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onbeat.models.toybox.config import ToyboxConfig
from onbeat.models.toybox.dit import Block, linear, norm
from onbeat.models.toybox.prompts import VOCABULARY, words_of

PAD, NULL, WORDS_FROM = 0, 1, 2
"""Rows of the table: an empty slot, the empty prompt, then the vocabulary, then the buckets."""
PIECES = 12
"""Table rows that one slot can sum: a word is one, an unknown word one per letter triple."""
_INDEX = {word: WORDS_FROM + i for i, word in enumerate(VOCABULARY)}


def trigram_rows(word: str, buckets: int) -> list[int]:
    """Table rows of the letter triples of `word` with its borders."""
    bordered = f"<{word}>"
    first = WORDS_FROM + len(VOCABULARY)
    triples = (bordered[i : i + 3] for i in range(len(bordered) - 2))
    return [first + zlib.crc32(t.encode()) % buckets for t in triples][:PIECES]


def word_rows(word: str, buckets: int) -> list[int]:
    return [_INDEX[word]] if word in _INDEX else trigram_rows(word, buckets)


@lru_cache(maxsize=4096)
def tokenise(prompt: str, slots: int, buckets: int, spelled: int = 0) -> Tensor:
    """int64 [slots, PIECES] table rows of a prompt, PAD where there is nothing; words past the last
    slot are dropped. Bit i of `spelled` makes word i be read by its letters (training only)."""
    with torch.inference_mode(False):  # what serving leaves in the cache, training may read
        rows = torch.full((slots, PIECES), PAD)
    words = words_of(prompt)[:slots]
    if not words:
        rows[0, 0] = NULL
    for i, word in enumerate(words):
        found = trigram_rows(word, buckets) if spelled >> i & 1 else word_rows(word, buckets)
        rows[i, : len(found)] = torch.tensor(found)
    return rows


class TextEncoder(nn.Module):
    """Token rows to prefix slots (text, then registers) and a pooled vector."""

    plain: Tensor

    def __init__(self, config: ToyboxConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        rows = WORDS_FROM + len(VOCABULARY) + config.trigram_buckets
        self.table = nn.Parameter(torch.randn(rows, config.word_dim))
        self.lift = nn.Linear(config.word_dim, width)
        self.place = nn.Parameter(torch.randn(config.text_slots, width) * 0.3)
        self.mixer = Block(width, config.heads, 2 * width)
        self.pool = nn.Linear(width, width)
        self.registers = nn.Parameter(torch.randn(config.registers, width))
        self.register_buffer("plain", torch.tensor([1.0, 0.0, 1.0] * 2), persistent=False)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """rows int64 [p, text_slots, PIECES] -> slots [p, prefix_tokens, w], pooled [p, w]."""
        present = (rows != PAD).unsqueeze(-1)
        pieces = F.embedding(rows, self.table) * present
        words = pieces.sum(2) / present.sum(2).clamp(min=1).sqrt()
        x = (linear(self.lift, words).float() + self.place).unsqueeze(1)
        m = self.plain.view(6, 1, 1, 1, 1)
        x = norm(self.mixer(x, m, full_attention)).squeeze(1)
        used = present.any(2).float()
        pooled = linear(self.pool, (x * used).sum(1) / used.sum(1)).float()
        registers = self.registers.expand(len(rows), -1, -1)
        return torch.cat([x, registers], dim=1), pooled


def full_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Every slot sees every slot; [p, n, h, e] each."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
