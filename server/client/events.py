"""Server-sent events out of lines of text (the HTML standard's event stream). Reads nothing."""

import json

from onbeat.client.records import Event


class EventReader:
    """`feed` it line by line, without line ends."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        self._type = ""
        self._data: list[str] = []

    def feed(self, line: str) -> Event | None:
        """The event that this line ends, if it ends one. Data that are no JSON stay text."""
        if not line:
            return self._end()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._type = value
            case "data":
                self._data.append(value)
            case "id":
                self.last_id = value
        return None

    def _end(self) -> Event | None:
        data, kind = "\n".join(self._data), self._type or "message"
        self._data, self._type = [], ""
        if not data:
            return None
        try:
            value = json.loads(data)
        except ValueError:
            value = data
        return Event(type=kind, data=value, id=self.last_id)
