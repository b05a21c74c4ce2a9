from collections.abc import Callable

from site_builder.pages import Page

HEADER = """\
---
jupyter:
  kernelspec:
    display_name: Python 3
    language: python
    name: python3
---

"""

MakePage = Callable[..., Page]


def cell(code: str, tags: str = "") -> str:
    """A code cell of a page."""
    options = f' tags=["{tags}"]' if tags else ""
    return f"```python{options}\n{code}\n```\n\n"
