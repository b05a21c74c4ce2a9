"""An executed notebook as Markdown, for any generator that reads Python-Markdown.

Tags: `remove-cell`, `remove-input`, `hide-input` and `hide-output` (folded; figures and HTML
stay in the open).
"""

import re
from html import escape
from textwrap import indent

from nbconvert.filters import strip_ansi
from nbformat import NotebookNode

SUMMARIES = {
    "zh-TW": {"input": "程式碼", "output": "輸出"},
    "en": {"input": "Code", "output": "Output"},
}
INK = "#7a7a7b"  # what figures use for text and axes: the page's own text colour replaces it
PREFERRED = ("text/markdown", "image/svg+xml", "text/html", "image/png", "text/plain")


def fence(text: str, info: str) -> str:
    """A fenced block whose fence is longer than any run of backticks inside it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks} {info}\n{text.rstrip()}\n{ticks}"


def _folded(markdown: str, summary: str) -> str:
    return f'??? code "{summary}"\n\n' + indent(markdown, "    ")


def inline_svg(svg: str, prefix: str) -> str:
    """A stand-alone SVG as part of a page: responsive, in its text colour, ids its own."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    root, rest = svg.split(">", 1)
    width = re.search(r'\swidth="([^"]+)"', root)
    root = re.sub(r'\s(width|height|version|xmlns:xlink|xmlns)="[^"]*"', "", root)
    root = " ".join(root.split()) + (f' style="max-width:{width[1]}"' if width else "")
    rest = re.sub(r'\bid="', f'id="{prefix}', rest)
    rest = re.sub(r'(?:xlink:)?href="#', f'href="#{prefix}', rest)
    rest = rest.replace("url(#", f"url(#{prefix}").replace(INK, "currentColor")
    return re.sub(r"\s*\n\s*", "\n", f'{root} aria-hidden="true">{rest}').strip()


def _alt(cell: NotebookNode, output: NotebookNode, kind: str, place: str) -> str:
    metadata = output.get("metadata", {})
    alt = metadata.get(kind, {}).get("alt") or metadata.get("alt") or cell.metadata.get("alt")
    comment = re.match(r"\s*#\s*(\S.*)", cell.source)
    if not alt and comment:
        alt = comment[1]
    if not alt:
        raise ValueError(
            f"{place} draws a figure without alternative text: give the output's metadata "
            "an 'alt', or begin the cell with a comment that says what it shows"
        )
    return str(alt)


def _figure(drawing: str, alt: str) -> str:
    label = escape(alt, quote=True)
    return f'<figure class="plot" role="img" aria-label="{label}">\n{drawing}\n</figure>'


def _output(cell: NotebookNode, output: NotebookNode, place: str, prefix: str) -> tuple[str, bool]:
    """Markdown of one output, and whether it is text that may be folded."""
    block = "{ .text .output .no-copy }"
    if output.output_type == "stream":
        return fence(strip_ansi(output.text), block), True
    if output.output_type == "error":
        return fence(strip_ansi(f"{output.ename}: {output.evalue}"), block), True
    kind = next((kind for kind in PREFERRED if kind in output.data), None)
    if kind is None:
        raise ValueError(f"{place} shows {sorted(output.data)}, of which the site can show none")
    data = output.data[kind]
    if kind == "text/markdown":
        return data.strip("\n"), True
    if kind == "text/plain":
        return fence(strip_ansi(data), block), True
    if kind == "text/html":
        return f'<div class="table-scroll">\n{data.strip()}\n</div>', False
    alt = _alt(cell, output, kind, place)
    if kind == "image/png":
        image = f'<img alt="" src="data:image/png;base64,{data.strip()}">'
        return _figure(image.replace("\n", ""), alt), False
    return _figure(inline_svg(data, prefix), alt), False


def to_markdown(notebook: NotebookNode, language: str) -> str:
    """Markdown of an executed notebook; `language` is that of the words around folded parts.

    Raises:
        ValueError: an output that cannot be shown, or a figure without alternative text.
    """
    words = SUMMARIES[language]
    blocks: list[str] = []
    number = 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            blocks.append(cell.source)
        if cell.cell_type != "code":
            continue
        number += 1
        tags = cell.metadata.get("tags", [])
        if "remove-cell" in tags:
            continue
        if "remove-input" not in tags and cell.source.strip():
            code = fence(cell.source, "python")
            blocks.append(_folded(code, words["input"]) if "hide-input" in tags else code)
        for index, output in enumerate(cell.outputs):
            prefix = f"cell{number}-{index}-"
            markdown, foldable = _output(cell, output, f"cell {number}", prefix)
            if foldable and "hide-output" in tags:
                markdown = _folded(markdown, words["output"])
            blocks.append(markdown)
    return "\n\n".join(blocks) + "\n"
