"""MkDocs' side of the site: named under `hooks:` in mkdocs.yml."""

import copy
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

# ruff: noqa: E402
# MkDocs loads this file by its path, from wherever it is run.
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import nbformat
from filelock import FileLock, Timeout
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import Abort, PluginError
from mkdocs.livereload import LiveReloadServer
from mkdocs.plugins import event_priority
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page as MkDocsPage
from nbformat import NotebookNode

from site_builder import api_links, execute, page_html, pages, twins
from site_builder.notebook_markdown import to_markdown
from site_builder.site_checks import check_site

logging.getLogger("jieba").setLevel(logging.WARNING)  # "Building prefix dict …"

_sources: dict[str, pages.Page] = {}
_executed: dict[Path, NotebookNode] = {}
_lock: FileLock | None = None


@contextmanager
def _reported(where: object = "") -> Iterator[None]:
    """Our errors as MkDocs', which end a build with their message alone."""
    try:
        yield
    except pages.PageError as error:
        raise PluginError(str(error)) from None
    except ValueError as error:
        raise PluginError(f"{where}: {error}") from None


def _in_language_build(config: MkDocsConfig) -> bool:
    """Whether the i18n plugin is building a further language inside the build."""
    return bool(getattr(config.plugins["i18n"], "building", False))


def _source(page: MkDocsPage) -> pages.Page | None:
    source = _sources.get(page.file.src_uri)
    return source if source and source.notebook else None


def on_startup(command: str, dirty: bool) -> None:
    global _lock
    if command != "build":
        return
    _lock = FileLock(ROOT / ".cache" / "build.lock", timeout=0)
    Path(_lock.lock_file).parent.mkdir(exist_ok=True)
    try:
        _lock.acquire()
    except Timeout:
        raise Abort("Another build is running in this folder.") from None


def on_shutdown() -> None:
    if _lock:
        _lock.release()


def on_pre_build(config: MkDocsConfig) -> None:
    """Read, compare and run every page, before MkDocs empties the site's folder."""
    if _in_language_build(config):
        return
    docs = Path(config.docs_dir)
    excluded = config.exclude_docs
    with _reported():
        pairs = pages.discover(docs, excluded.match_file if excluded else lambda _: False)
        for pair in pairs:
            twins.compare_sources(*pair)
        found = [page for pair in pairs for page in pair]
        notebooks = execute.execute_all(found, ROOT / ".cache" / "pages")
        for first, second in pairs:
            if first.notebook:
                twins.compare_outputs(first, second, notebooks[first.path], notebooks[second.path])
    _sources.clear()
    _sources.update({page.path.relative_to(docs).as_posix(): page for page in found})
    _executed.clear()
    _executed.update(notebooks)


@event_priority(-100)
def on_pre_page(page: MkDocsPage, config: MkDocsConfig, files: Files) -> MkDocsPage:
    """Render natively what mkdocs-jupyter has recognised as a notebook."""
    recognised = vars(page).pop("render", None) is not None
    if recognised != (_source(page) is not None):
        raise PluginError(f"{page.file.src_uri}: mkdocs-jupyter takes it for another kind of page")
    return page


@event_priority(100)
def on_page_markdown(markdown: str, page: MkDocsPage, config: MkDocsConfig, files: Files) -> str:
    source = _source(page)
    if source:
        with _reported(source):
            markdown = to_markdown(_executed[source.path], source.language)
    return pages.with_title_anchor(markdown, Path(page.file.src_uri).name.split(".")[0])


def _colab(config: MkDocsConfig, notebook: str) -> str | None:
    if not config.repo_url:
        return None
    repository = urlsplit(config.repo_url).path.strip("/").removesuffix(".git")
    branch = config.remote_branch
    return f"https://colab.research.google.com/github/{repository}/blob/{branch}/{notebook}"


def install_command(extras: str, repository: str) -> str:
    """What the first cell of a downloaded notebook runs, so that the others find the package."""
    package = execute.PACKAGE + (f"[{extras}]" if extras else "")
    return f'%pip install -q "{package} @ git+{repository}"'


def _notebook_uri(page: MkDocsPage, source: pages.Page) -> str:
    """Where the page's executed notebook is published: beside the page."""
    return (Path(page.file.dest_uri).parent / f"{Path(source.name).name}.ipynb").as_posix()


def on_page_content(html: str, page: MkDocsPage, config: MkDocsConfig, files: Files) -> str:
    soup = page_html.parse(html)
    source = _source(page)
    with _reported(page.file.src_uri):
        page_html.render_maths(soup)
        if source:
            code = [cell.source for cell in source.code_cells]
            api = files.get_file_from_path("api.md")
            if api:
                names = api_links.imported_names(code, execute.PACKAGE)
                api_links.link_names(soup, names, api.url_relative_to(page.file))
            notebook = _notebook_uri(page, source)
            page_html.add_notebook_links(
                soup, source.language, Path(notebook).name, _colab(config, notebook)
            )
    return str(soup)


@event_priority(-100)
def on_page_context(
    context: dict[str, Any], page: MkDocsPage, config: MkDocsConfig, nav: object
) -> dict[str, Any]:
    """Relative links to the other language on the home page too: the site may stand anywhere."""
    for alternate in config.extra.alternate:  # type: ignore[attr-defined]  # set by i18n
        twin = page.file.alternates[alternate["lang"]]  # type: ignore[attr-defined]
        alternate["link"] = twin.url or "./"
    return context


def on_env(env: object, config: MkDocsConfig, files: Files) -> None:
    """The 404 page links to the home pages, not to the last page of the build before."""
    vars(config.extra).pop("alternate", None)


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    return page_html.without_alternates(output_content)


def on_post_page(output: str, page: MkDocsPage, config: MkDocsConfig) -> str:
    if source := _source(page):
        notebook = copy.deepcopy(_executed[source.path])
        if config.repo_url:
            command = install_command(source.extras, config.repo_url)
            install = nbformat.v4.new_code_cell(command, id="install")
            notebook.cells.insert(0, install)
        nbformat.validate(notebook)
        target = Path(config.site_dir) / _notebook_uri(page, source)
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, target)
    return page_html.without_alternates(output)


@event_priority(-200)
def on_post_build(config: MkDocsConfig) -> None:
    if _in_language_build(config):
        return
    base = urlsplit(config.site_url or "").path.rstrip("/") + "/"
    if problems := check_site(Path(config.site_dir), base):
        raise PluginError("\n".join(problems))


def on_serve(server: LiveReloadServer, config: MkDocsConfig, builder: object) -> LiveReloadServer:
    for folder in execute.package_folders():
        server.watch(str(folder))
    return server
