"""The words of errors about values: what was given, as JSON has it, and what is allowed.

What it is not: the errors themselves (errors.py), or any check.
"""

import json
import re
from typing import Any

SHOWN_VALUE = 80

_KINDS = {
    "text": ("string_type",),
    "a whole number": ("int_type", "int_parsing", "int_from_float", "int_parsing_size"),
    "a number": ("float_type", "float_parsing"),
    "a finite number": ("finite_number",),
    "true or false": ("bool_type", "bool_parsing"),
    "an object": ("dict_type", "model_type", "model_attributes_type", "mapping_type"),
    "a list": ("list_type", "tuple_type"),
    "text without halves of surrogate pairs": ("string_unicode",),
}
_ALLOWED = {kind: words for words, kinds in _KINDS.items() for kind in kinds}
_LIMITS = {
    "greater_than": "above {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "below {lt}",
    "less_than_equal": "{le} or less",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "too_short": "at least {min_length} entries",
    "too_long": "at most {max_length} entries",
    "string_pattern_mismatch": "text of the form {pattern}",
    "literal_error": "{expected}",
}
_NAMES = {"True": "true", "False": "false", "None": "null"}


def reason(error: Any) -> str:
    """What is allowed instead, of one entry of pydantic's list of errors."""
    kind = error["type"]
    if kind in _ALLOWED:
        return f"allowed: {_ALLOWED[kind]}"
    if kind in _LIMITS:
        return "allowed: " + _as_json(_LIMITS[kind].format(**error["ctx"]))
    text: str = error["msg"].removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def _as_json(words: str) -> str:
    """Python's names of values that JSON writes in another way."""
    return re.sub(r"(?<!')\b(?:True|False|None)\b(?!')", lambda found: _NAMES[found[0]], words)


def shown(value: object) -> str:
    """A value as it may appear in a message: short, quoted, printable, as JSON writes it."""
    if isinstance(value, bytes):
        return f"a file of {len(value)} bytes"
    if isinstance(value, str):
        text = repr(value[: SHOWN_VALUE + 1])
    else:
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=True)
        except (TypeError, ValueError, RecursionError):
            text = repr(value)
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= SHOWN_VALUE else text[:SHOWN_VALUE] + "…"
