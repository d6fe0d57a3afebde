"""The query of lists that come in pages: the same of jobs and of recordings.

What it is not: the lists (the stores have them), or what a page holds (the routes' own models).
"""

from typing import Annotated, Literal

from fastapi import Query

from onbeat.server.api.errors import ApiError
from onbeat.server.api.fields import Strict
from onbeat.server.wording import shown


class PageQuery(Strict):
    """Newest first unless asked otherwise; `after`: the id that the page goes on behind."""

    after: str | None = None
    limit: Annotated[int, Query(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"

    @property
    def newest_first(self) -> bool:
        return self.order == "desc"

    def unknown(self, noun: str) -> ApiError:
        """404: nothing has the id `after`."""
        message = f"after: no {noun} with id {shown(self.after)}"
        return ApiError(404, f"{noun}_not_found", message, param="after")


PageDep = Annotated[PageQuery, Query()]
