"""Multipart forms (RFC 7578), read strictly: text is UTF-8, and a name stands once.

`a[b]` becomes an entry of a dict, repeated `a[]` a list; numbers stay text, which the models of the
bodies convert. What it is not: the meaning of the fields, or JSON (body.py).
"""

from typing import Any

from fastapi import Request
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from onbeat.server.api.errors import ApiError
from onbeat.server.wording import cut, shown

MAX_FIELDS = 64
MAX_PART = 12 * 1024 * 1024
"""A text field may be media in base64."""


class StrictParser(MultiPartParser):
    """Starlette's, which takes what is not UTF-8 for latin-1: that would be another text."""

    def on_headers_finished(self) -> None:
        """Raises MultiPartException."""
        super().on_headers_finished()
        _, options = parse_options_header(self._current_part.content_disposition)
        for name in (b"name", b"filename"):
            try:
                options.get(name, b"").decode()
            except UnicodeDecodeError as error:
                raise MultiPartException(f"the {name.decode()} of a part is not UTF-8") from error

    def on_part_end(self) -> None:
        """Raises ApiError 422."""
        part = self._current_part
        if part.file is None:
            check_utf8(part.field_name, bytes(part.data))
        super().on_part_end()


def check_utf8(name: str, data: bytes) -> None:
    """Raises ApiError 422 that names the field and the place."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        message = f"{name}: byte {error.start} is not UTF-8; allowed: text in UTF-8"
        raise ApiError(422, "invalid_value", message, param=name) from error


async def read_form(request: Request, files: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The fields of the request's form; of `files` their bytes. Raises ApiError 400 or 422."""
    parser = StrictParser(
        request.headers,
        request.stream(),
        max_files=1,
        max_fields=MAX_FIELDS,
        max_part_size=MAX_PART,
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        message = f"The form cannot be read: {error.message.rstrip('.')}."
        raise ApiError(400, "invalid_form", message) from error
    try:
        items = [(key, await _value(key, value, files)) for key, value in form.multi_items()]
        return _nested(items)
    finally:
        await form.close()


async def _value(key: str, value: UploadFile | str, files: frozenset[str]) -> str | bytes:
    if isinstance(value, str):
        return value
    if key in files:
        return await value.read()
    allowed = ", ".join(sorted(files)) or "none"
    message = f"{key}: it may not be a file; files that are allowed: {allowed}"
    raise ApiError(422, "unsupported_field", message, param=key)


def _nested(items: list[tuple[str, str | bytes]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in items:
        name, bracket, rest = key.partition("[")
        inner = rest.removesuffix("]")
        if not bracket:
            _put(result, name, value)
        elif inner:
            _put(_child(result, name, dict), inner, value)
        else:
            _child(result, name, list).append(value)
    return result


def _put(target: dict[str, Any], name: str, value: str | bytes) -> None:
    if name in target:
        raise repeated(name)
    target[name] = value


def _child(target: dict[str, Any], name: str, kind: type) -> Any:
    child = target.setdefault(name, kind())
    if not isinstance(child, kind):
        raise ApiError(422, "repeated_field", f"{name}: given in two forms", param=name)
    return child


def repeated(name: str) -> ApiError:
    """422 for a name that stands twice: nobody can say which value counts."""
    message = f"{shown(name)[1:-1]}: given more than once; allowed: once"
    return ApiError(422, "repeated_field", message, param=cut(name))
