"""The words of errors about values: what was given, as JSON has it, and what is allowed.

For requests (api/errors.py) and settings (config.py). What it is not: the errors, or any check.
"""

import json
import re
from typing import Any

SHOWN_VALUE = 80
LONGEST_URL = 2000
CREDENTIALS = re.compile(
    r"((?://|\b(?:turns?|stun):))"
    r"(?:[^\s/?#]*@|[^\s/?#@\[\]]*:(?!\d{0,5}(?:[/?#\s'\"]|$))\S*@)"
)
"""What stands before the host of a URL; in the second form with a slash in the password."""

_KINDS = {
    "text": ("string_type",),
    "a whole number": ("int_type", "int_parsing", "int_from_float", "int_parsing_size"),
    "a number": ("float_type", "float_parsing"),
    "a finite number": ("finite_number",),
    "true or false": ("bool_type", "bool_parsing"),
    "an object": ("dict_type", "model_type", "model_attributes_type", "mapping_type"),
    "a list": ("list_type", "tuple_type"),
    "a path": ("path_type",),
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
    if kind in ("too_long", "too_short") and isinstance(error.get("input"), str):
        kind = f"string_{kind}"
    if kind in _ALLOWED:
        return f"allowed: {_ALLOWED[kind]}"
    if kind in _LIMITS:
        limits = {name: _plain(value) for name, value in error["ctx"].items()}
        return "allowed: " + _as_json(_LIMITS[kind].format(**limits))
    text: str = error["msg"].removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def _plain(value: Any) -> Any:
    """2 for 2.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _as_json(words: str) -> str:
    """Python's names of values that JSON writes in another way."""
    return re.sub(r"(?<!')\b(?:True|False|None)\b(?!')", lambda found: _NAMES[found[0]], words)


def without_credentials(text: str) -> str:
    """The beginning of a text; name and password in the addresses in it are stars."""
    more = "@" if len(text) > LONGEST_URL else ""
    return CREDENTIALS.sub(r"\1***@", text[:LONGEST_URL] + more)


def shown(value: object) -> str:
    """A value as it may appear in a message: short, quoted, printable, as JSON writes it, and
    without the credentials of addresses."""
    if isinstance(value, bytes):
        return f"a file of {len(value)} bytes"
    if isinstance(value, str):
        text = repr(without_credentials(value)[: SHOWN_VALUE + 1])
    else:
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=True)
        except (TypeError, ValueError, RecursionError):
            text = repr(value)
        text = without_credentials(text)
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= SHOWN_VALUE else text[:SHOWN_VALUE] + "…"


def cut(name: str) -> str:
    """The name of a field as it may appear in a message: names are the client's own, of any
    length."""
    return name if len(name) <= SHOWN_VALUE else f"{name[:SHOWN_VALUE]}…"


def install(extra: str) -> str:
    """How an extra of this package is added."""
    return (
        f"pip install 'onbeat[{extra}]', in a clone pip install -c constraints.txt -e '.[{extra}]'"
    )
