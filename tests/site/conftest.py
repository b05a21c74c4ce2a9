from pathlib import Path

import pytest
from site_helpers import HEADER, MakePage

from site_builder.pages import DEFAULT_LANGUAGE, SUFFIXES, Page, read


@pytest.fixture
def make_page(tmp_path: Path) -> MakePage:
    """A page written and read: its body, with the header of a notebook before it."""

    def make(
        body: str, language: str = DEFAULT_LANGUAGE, name: str = "page", header: str = HEADER
    ) -> Page:
        path = tmp_path / f"{name}{SUFFIXES[language]}.md"
        path.write_text(header + body, encoding="utf-8")
        return read(path, name, language)

    return make
