from pathlib import Path

import pytest

from site_builder.site_checks import PAGE_BYTES, check_site


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="b/#there">', None),
        ('<a href="https://example.org/#x">', None),
        ('<a href="b/#gone">', "link b/#gone leads to an anchor that is not there"),
        ('<a href="c/">', "link c/ leads nowhere"),
        ('<a href="/other/">', "link /other/ leaves the site's folder /base/"),
        ('<a href="/base/b/">', None),
        ('<i id="x"></i><i id="x"></i>', "id 'x' is used twice"),
        ('<i id=""></i>', "an element has an empty id"),
        ('<script src="https://cdn.org/x.js"></script>', "loads https://cdn.org/x.js from"),
        ('<link rel="stylesheet" href="//cdn.org/x.css">', "loads //cdn.org/x.css from"),
        (f"<p>{'x' * PAGE_BYTES}</p>", "without figures, over"),
        (f'<figure class="plot">{"x" * PAGE_BYTES}</figure>', None),
    ],
)
def test_problems_name_their_page(tmp_path: Path, html: str, problem: str | None) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "index.html").write_text('<h2 id="there"></h2>')
    (tmp_path / "a.html").write_text(html)
    problems = check_site(tmp_path, "/base/")
    if problem is None:
        assert problems == []
    else:
        [found] = problems
        assert found.startswith("a.html: ")
        assert problem in found
