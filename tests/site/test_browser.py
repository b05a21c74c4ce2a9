"""The built site in a real browser. Pages are found in the site, not listed here."""

import os
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from site_builder import pages as written_pages

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("M05_SITE_DIR", ROOT / "site"))
SEARCHES = ["量化", "校準", "權重", "calibration"]
CHROMIUM = next(
    filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None
)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
]
PHONE = {"width": 390, "height": 844}


@cache
def built() -> Path:
    if not (SITE / "index.html").exists():
        command = [sys.executable, "-m", "site_builder", "build", "--site-dir", str(SITE)]
        subprocess.run(command, cwd=ROOT, check=True)
    return SITE


def urls() -> list[str]:
    """Address of every page in every language, from the site's root."""
    pages = sorted(path.parent.relative_to(built()) for path in built().rglob("index.html"))
    return [f"{page.as_posix()}/".removeprefix("./") for page in pages]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "url" in metafunc.fixturenames:
        metafunc.parametrize("url", urls(), ids=lambda url: url or "home")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *args: object) -> None:
        """A browser may leave a page before all its files are read."""


@pytest.fixture(scope="session")
def base() -> Iterator[str]:
    server = Server(("127.0.0.1", 0), partial(Quiet, directory=str(built())))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        stop = pytest.fail if os.environ.get("CI") else pytest.skip
        stop("no Chromium or Chrome on PATH; install one to test the site in a browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, base: str) -> Iterator[Page]:
    """A page that fails its test on an error in the console or a request that leaves the site."""
    context = browser.new_context(base_url=base)
    page, problems = context.new_page(), []
    page.on("console", lambda m: problems.append(m.text) if m.type in ("error", "warning") else 0)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda r: 0 if r.url.startswith((base, "data:")) else problems.append(r.url))
    yield page
    context.close()
    assert problems == []


def url_of(written: written_pages.Page) -> str:
    """Where a source page is published."""
    name = "" if written.name == "index" else f"{written.name}/"
    return f"en/{name}" if written.language == "en" else name


def published_notebook(url: str) -> Path:
    name = Path(url.removeprefix("en/")).name or "index"
    return built() / url / f"{name}.ipynb"


def test_both_languages_of_every_page_are_built() -> None:
    pairs = written_pages.discover(ROOT / "docs")
    assert set(urls()) == {url_of(written) for pair in pairs for written in pair}


def test_page_loads(page: Page, url: str) -> None:
    page.goto(url, wait_until="networkidle")
    language = page.locator("html").get_attribute("lang")
    assert language == ("en" if url.startswith("en/") else "zh-TW")
    for fold in page.locator("details.code").all():
        fold.locator("summary").click()
        expect(fold).to_have_attribute("open", "")


def test_language_switch_stays_on_the_page(page: Page, url: str, base: str) -> None:
    page.goto(url)
    other, language = (url[3:], "zh-TW") if url.startswith("en/") else (f"en/{url}", "en")
    page.locator(".md-select").hover()
    page.locator(f".md-select__link[hreflang={language}]").click()
    page.wait_for_url(base + other)
    expect(page.locator("html")).to_have_attribute("lang", language)


def test_table_of_contents_leads_to_headings(page: Page, url: str) -> None:
    page.goto(url)
    links = page.locator(".md-nav--secondary a[href*='#']")
    for link in links.all():
        fragment = (link.get_attribute("href") or "").split("#")[1]
        assert fragment
        link.evaluate("link => link.click()")
        heading = page.locator(f"[id='{fragment}']")
        assert heading.evaluate("h => /^H[1-6]$/.test(h.tagName)")
        expect(heading).to_be_in_viewport()


@pytest.mark.parametrize("start", ["", "en/"])
@pytest.mark.parametrize("term", SEARCHES)
def test_search_finds(page: Page, start: str, term: str) -> None:
    page.goto(start, wait_until="networkidle")
    page.locator(".md-search__input").click()
    page.locator(".md-search__input").fill(term)
    page.locator(".md-search__input").press("Shift")  # the search listens to keys
    found = page.locator(".md-search-result__article mark").first
    expect(found).to_have_text(term, ignore_case=True)
    result = page.locator(".md-search-result__link").first
    result.click()
    page.wait_for_url("**/?h=*")
    assert term in page.locator("article").inner_text().lower()


def test_maths_is_drawn(page: Page, url: str) -> None:
    page.goto(url)
    assert not page.locator(".arithmatex").count()
    assert not page.locator("article", has_text=r"\(").count()
    for maths in page.locator("math:visible").all():
        box = maths.bounding_box()
        assert box
        assert box["width"] > 3
        assert box["height"] > 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_are_drawn_in_the_colour_of_text(page: Page, url: str, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(url)
    text = page.locator("article").evaluate("e => getComputedStyle(e).color")
    for figure in page.locator("figure.plot").all():
        assert figure.get_attribute("aria-label")
        box = figure.locator("> svg, > img").bounding_box()
        assert box
        assert box["width"] > 100
        assert box["height"] > 50
        assert figure.evaluate("e => getComputedStyle(e).color") == text


def test_maths_and_figures_of_the_sources_are_there(page: Page) -> None:
    for pair in written_pages.discover(ROOT / "docs"):
        for written in pair:
            page.goto(url_of(written))
            if "$$" in written.body:
                assert page.locator("math[display=block]").count(), written
            if written.notebook:
                notebook = nbformat.read(published_notebook(url_of(written)), as_version=4)
                drawn = sum(
                    "image/svg+xml" in output.get("data", {})
                    for code in notebook.cells
                    if "remove-cell" not in code.metadata.get("tags", [])
                    for output in code.get("outputs", [])
                )
                assert page.locator("figure.plot > svg").count() == drawn, written


def test_notebook_is_offered(page: Page, url: str) -> None:
    page.goto(url)
    link = page.locator(".notebook-links a[download]")
    assert link.count() == published_notebook(url).exists()
    if link.count():
        with urllib.request.urlopen(link.evaluate("link => link.href")) as answer:
            notebook = nbformat.reads(answer.read().decode(), as_version=4)
        nbformat.validate(notebook)
        assert any(code.get("outputs") for code in notebook.cells)


def test_page_fits_a_phone(page: Page, url: str) -> None:
    page.set_viewport_size(PHONE)
    page.goto(url)
    for fold in page.locator("details").all():
        fold.evaluate("fold => (fold.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    # What is wider than the screen scrolls by itself, instead of being cut off.
    cut = page.evaluate(
        """width => [...document.querySelectorAll("article *")].filter(e => {
            if (e.closest("svg, math")) return false;
            if (e.getBoundingClientRect().right <= width + 1) return false;
            for (let p = e; p.tagName != "ARTICLE"; p = p.parentElement)
                if (["auto", "scroll"].includes(getComputedStyle(p).overflowX)) return false;
            return e.checkVisibility() && e.getClientRects().length > 0;
        }).map(e => e.outerHTML.slice(0, 120))""",
        PHONE["width"],
    )
    assert cut == []


def test_dark_mode_toggles(page: Page) -> None:
    page.emulate_media(color_scheme="light")
    page.goto("")
    body, seen = page.locator("body"), set()
    for _ in range(3):
        seen.add(body.evaluate("e => getComputedStyle(e).backgroundColor"))
        page.locator("form[data-md-component=palette] label:visible").click()
    assert len(seen) == 2
