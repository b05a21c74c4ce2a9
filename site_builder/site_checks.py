"""Checks of the built site as a whole, after the last page is written."""

from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from bs4 import BeautifulSoup

from site_builder.page_html import parse

PAGE_BYTES = 150_000
_LOADED = {
    "script[src]": "src",
    "img[src]": "src",
    "iframe[src]": "src",
    "source[src]": "src",
    "video[src]": "src",
    "audio[src]": "src",
    "embed[src]": "src",
    "object[data]": "data",
    "link[href]:is([rel~=stylesheet], [rel~=preload], [rel~=preconnect], [rel~=icon])": "href",
}


def _ids(soup: BeautifulSoup) -> list[str]:
    return [str(element["id"]) for element in soup.select("[id]")]


def _id_problems(soup: BeautifulSoup) -> list[str]:
    ids = _ids(soup)
    problems = [
        f"id {name!r} is used twice" for name in sorted({i for i in ids if ids.count(i) > 1})
    ]
    return problems + (["an element has an empty id"] if "" in ids else [])


def _off_site_problems(soup: BeautifulSoup) -> list[str]:
    return [
        f"loads {element[attribute]} from another site"
        for selector, attribute in _LOADED.items()
        for element in soup.select(selector)
        if urlsplit(str(element[attribute])).netloc
    ]


def _weight_problems(soup: BeautifulSoup) -> list[str]:
    figures = sum(len(str(figure).encode()) for figure in soup.select("figure.plot"))
    size = len(str(soup).encode()) - figures
    return [f"weighs {size} bytes without figures, over {PAGE_BYTES}"] if size > PAGE_BYTES else []


def check_site(site: Path, base: str = "/") -> list[str]:
    """Everything wrong with a built site, each naming its page.

    Args:
        site: the folder of the built site.
        base: path the site is published under, which its absolute links begin with.
    """
    soups = {path: parse(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    ids = {path: {"", *_ids(soup)} for path, soup in soups.items()}
    problems: list[str] = []

    def link_problem(page: str, href: str) -> str | None:
        parts = urlsplit(urljoin(f"http://site{base}{page}", href))
        if parts.netloc != "site" or parts.scheme != "http":
            return None
        if not parts.path.startswith(base):
            return f"link {href} leaves the site's folder {base}"
        target = site / unquote(parts.path.removeprefix(base))
        if target.is_dir():
            target /= "index.html"
        if not target.exists():
            return f"link {href} leads nowhere"
        if target in ids and unquote(parts.fragment) not in ids[target]:
            return f"link {href} leads to an anchor that is not there"
        return None

    for path, soup in soups.items():
        page = path.relative_to(site).as_posix()
        found = _id_problems(soup) + _off_site_problems(soup) + _weight_problems(soup)
        for element in soup.select("[href], [src]"):
            if problem := link_problem(page, str(element.get("href") or element.get("src") or "")):
                found.append(problem)
        problems += [f"{page}: {problem}" for problem in dict.fromkeys(found)]
    return problems
