"""Examples in docstrings, written as plain doctests, as code blocks in the API page."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


def fenced(docstring: str) -> str:
    """Put each paragraph that begins with `>>>`, results included, into a fence."""
    return _EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", docstring)


class FencedDoctests(griffe.Extension):
    """The docstring parser sees examples under an `Examples:` heading only."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
