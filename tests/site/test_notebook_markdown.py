import pytest
from nbformat import NotebookNode, v4

from site_builder.notebook_markdown import fence, inline_svg, to_markdown

SVG = """<?xml version="1.0"?>
<!DOCTYPE svg>
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="460.8pt" height="230pt" viewBox="0 0 460 230"
 xmlns="http://www.w3.org/2000/svg" version="1.1">
 <metadata>2020-01-01</metadata>
 <defs><path id="a" style="stroke: #7a7a7b"/></defs>

 <g clip-path="url(#a)"><use xlink:href="#a"/></g>
</svg>
"""


def notebook(source: str, *outputs: NotebookNode, tags: tuple[str, ...] = ()) -> NotebookNode:
    cell = v4.new_code_cell(source, outputs=list(outputs), metadata={"tags": list(tags)})
    return v4.new_notebook(cells=[v4.new_markdown_cell("# T\n\n$x$ [a](b.md)"), cell])


def shown(**data: str) -> NotebookNode:
    kinds = {"md": "text/markdown", "svg": "image/svg+xml", "html": "text/html"}
    return v4.new_output("display_data", {kinds.get(k, "text/plain"): v for k, v in data.items()})


def test_prose_code_and_stream() -> None:
    printed = v4.new_output("stream", text="\x1b[31m1\x1b[0m\n")
    assert to_markdown(notebook("print(1)", printed), "en") == (
        "# T\n\n$x$ [a](b.md)\n\n"
        "``` python\nprint(1)\n```\n\n"
        "``` { .text .output .no-copy }\n1\n```\n"
    )


def test_fence_is_longer_than_those_inside() -> None:
    assert fence("a ```` b", "text") == "````` text\na ```` b\n`````"


def test_error_is_short() -> None:
    error = v4.new_output("error", ename="ValueError", evalue="no", traceback=["long"])
    markdown = to_markdown(notebook("f()", error), "en")
    assert "\nValueError: no\n" in markdown
    assert "long" not in markdown


@pytest.mark.parametrize(("language", "word"), [("en", "Code"), ("zh-TW", "程式碼")])
def test_hidden_input_is_folded(language: str, word: str) -> None:
    markdown = to_markdown(notebook("a\n\nb", shown(txt="1"), tags=("hide-input",)), language)
    assert f'??? code "{word}"\n\n    ``` python\n    a\n\n    b\n    ```\n\n``` {{' in markdown


def test_hidden_output_is_folded() -> None:
    markdown = to_markdown(notebook("a", shown(md="**b**"), tags=("hide-output",)), "en")
    assert markdown.endswith('??? code "Output"\n\n    **b**\n')


def test_removed_parts() -> None:
    assert "a" not in to_markdown(notebook("a", tags=("remove-cell",)), "en").split("\n", 3)[3]
    assert to_markdown(notebook("a", shown(txt="1"), tags=("remove-input",)), "en").endswith(
        "[a](b.md)\n\n``` { .text .output .no-copy }\n1\n```\n"
    )


def test_preferred_form() -> None:
    data = {"txt": "plain", "html": "<b>html</b>", "md": "**md**"}
    markdown = to_markdown(notebook("a", shown(**data)), "en")
    assert markdown.endswith("```\n\n**md**\n")
    del data["md"]
    markdown = to_markdown(notebook("a", shown(**data)), "en")
    assert markdown.endswith('<div class="table-scroll">\n<b>html</b>\n</div>\n')
    with pytest.raises(ValueError, match="cell 1 shows"):
        to_markdown(notebook("a", v4.new_output("display_data", {"x/y": ""})), "en")


def test_svg_becomes_part_of_the_page() -> None:
    assert inline_svg(SVG, "p-") == (
        '<svg viewBox="0 0 460 230" style="max-width:460.8pt" aria-hidden="true">\n'
        '<defs><path id="p-a" style="stroke: currentColor"/></defs>\n'
        '<g clip-path="url(#p-a)"><use href="#p-a"/></g>\n</svg>'
    )


def test_figure_says_what_it_shows() -> None:
    figure = shown(svg=SVG)
    start = '<figure class="plot" role="img" aria-label="'
    assert f'{start}SQNR &amp; bits">' in to_markdown(notebook("# SQNR & bits\na", figure), "en")
    figure.metadata["alt"] = "one"
    assert f'{start}one">' in to_markdown(notebook("# SQNR\na", figure), "en")
    figure.metadata["image/svg+xml"] = {"alt": "two"}
    assert f'{start}two">' in to_markdown(notebook("# SQNR\na", figure), "en")
    with pytest.raises(ValueError, match="cell 1 draws a figure without alternative text"):
        to_markdown(notebook("a", shown(svg=SVG)), "en")
