"""`onbeat openapi`: the OpenAPI document of the HTTP interface, without starting anything."""

import sys


def openapi() -> None:
    """Print the OpenAPI document (docs/openapi.json)."""
    from onbeat.server.api.app import documented
    from onbeat.server.api.document import as_text

    sys.stdout.write(as_text(documented()))
