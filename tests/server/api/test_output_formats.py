"""Videos of every format over HTTP: what is asked for is what comes, and remixes keep it."""

import pytest

from onbeat.server.jobs.formats import FORMATS, Format, artifact_name, media_type
from tests.server.api.conftest import Server
from tests.server.api.test_sessions import error_of

HEADS = {"mp4": b"ftyp", "webm": b"\x1a\x45\xdf\xa3", "png": b"PK\x03\x04", "wav": b"RIFF"}


@pytest.mark.parametrize("format", FORMATS)
def test_a_format_is_made_and_served_as_such(server: Server, format: Format) -> None:
    done = server.ended(server.video(output_format=format)["id"])
    assert (done["status"], done["output_format"]) == ("completed", format), done
    assert done["media_type"] == media_type("video", format)
    answer = server.http.get(done["url"])
    assert answer.headers["content-type"] == done["media_type"]
    name = artifact_name(done["id"], "video", format)
    assert answer.headers["content-disposition"] == f'inline; filename="{name}"'
    assert HEADS[format] in answer.content[:8]
    still = server.http.get(done["url"], params={"variant": "thumbnail"})
    assert still.headers["content-type"] == "image/webp" and still.status_code == 200
    assert server.http.delete(f"/v1/videos/{done['id']}").status_code == 200
    assert server.front.artifacts.find(done["id"], "video", format) is None


def test_a_remix_keeps_the_format_unless_it_names_one(server: Server) -> None:
    source = server.ended(server.video(output_format="webm")["id"])
    for asked, expected in (({}, "webm"), ({"output_format": "wav"}, "wav")):
        body = {"prompt": "a blue ball"} | asked
        answer = server.http.post(f"/v1/videos/{source['id']}/remix", json=body)
        assert answer.json()["output_format"] == expected


def test_unknown_formats_and_sound_without_sound_are_refused(server: Server) -> None:
    for body in ({"output_format": "gif"}, {"output_format": "wav", "generate_audio": False}):
        answer = server.http.post("/v1/videos", json={"prompt": "a red ball"} | body)
        assert answer.status_code == 422
        assert error_of(answer)["param"] == "output_format"
