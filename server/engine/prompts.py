"""Prompts as the model reads them: of one text, of weighted texts, and on the way between two.

Mixtures are linear in what the text encoder gives, so that they cost one more page, and no more
rows. What it is not: when a stream takes a prompt up (switch.py).
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from onbeat.models.spec import EncodedPrompt
from onbeat.server.vocabulary import Prompt

DEFAULT_BLEND_CHUNKS = 8
Encode = Callable[[str], EncodedPrompt]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Blend:
    """A way from one prompt to another in `chunks` equal parts; `part` is the one made now."""

    origin: EncodedPrompt
    target: EncodedPrompt
    chunks: int
    part: int = 1

    @property
    def encoded(self) -> EncodedPrompt:
        """What its chunk is made under; the last part is the target itself."""
        share = self.part / self.chunks
        return mixed([(self.origin, 1 - share), (self.target, share)])

    def next(self) -> "Blend | None":
        """Its next part; None after the last."""
        return None if self.part >= self.chunks else replace(self, part=self.part + 1)


def encode(prompt: Prompt, encode_text: Encode) -> EncodedPrompt:
    """Raises ValueError for a text that the model cannot encode."""
    if isinstance(prompt, str):
        return encode_text(prompt)
    return mixed([(encode_text(part.text), part.weight) for part in prompt])


def mixed(parts: Sequence[tuple[EncodedPrompt, float]]) -> EncodedPrompt:
    """The weighted mean; equal prompts by equal weights have equal digests."""
    total = sum(weight for _, weight in parts)
    shares = [(encoded, weight / total) for encoded, weight in parts if weight > 0]
    first, share = shares[0]
    if share == 1.0:
        return first
    pooled, slots = share * first.pooled, share * first.slots
    for encoded, share in shares[1:]:
        pooled, slots = pooled + share * encoded.pooled, slots + share * encoded.slots
    words = dict.fromkeys(word for encoded, _ in shares for word in encoded.recognised)
    return EncodedPrompt(
        pooled=pooled, slots=slots, recognised=tuple(words), digest=_digest(shares)
    )


def _digest(shares: Sequence[tuple[EncodedPrompt, float]]) -> str:
    text = "+".join(f"{encoded.digest}*{share!r}" for encoded, share in shares)
    return hashlib.sha256(text.encode()).hexdigest()
