"""The OpenAPI document: the one of the repository, whole, and of what the server really says."""

import json
from pathlib import Path
from typing import Any

from onbeat.server.api.app import documented
from onbeat.server.api.document import as_text
from onbeat.server.jobs.formats import FORMATS, media_type
from tests.server.api.conftest import Server

KEPT = Path(__file__).parents[3] / "docs" / "openapi.json"


def test_the_document_of_the_repository_is_of_today() -> None:
    renew = "an interface changed: onbeat openapi > docs/openapi.json, and read the difference"
    assert KEPT.read_text() == as_text(documented()), renew


def test_the_server_serves_it(server: Server) -> None:
    served = server.http.get("/openapi.json").json()
    assert served == json.loads(KEPT.read_text())


def test_every_reference_leads_somewhere() -> None:
    document = documented()
    for reference in _references(document):
        found: Any = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        assert found


def test_every_operation_has_a_name_of_its_own_and_tells_its_errors() -> None:
    operations = [o for item in documented()["paths"].values() for o in item.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    for operation in operations:
        content = operation["responses"]["default"]["content"]
        assert list(content) == ["application/problem+json"]
        for response in operation["responses"].values():
            for link in response.get("links", {}).values():
                assert link["operationId"] in names


def test_files_of_every_format_are_told() -> None:
    paths = documented()["paths"]
    for operation in (
        paths["/v1/videos/sync"]["post"],
        paths["/v1/videos/{video_id}/content"]["get"],
    ):
        content = operation["responses"]["200"]["content"]
        assert {media_type("video", kind) for kind in FORMATS} <= set(content)


def _references(part: Any) -> list[str]:
    if isinstance(part, list):
        return [found for each in part for found in _references(each)]
    if not isinstance(part, dict):
        return []
    own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
    return own + [found for each in part.values() for found in _references(each)]
