"""Set up, build, serve and test: `python3 tasks.py site | serve | test | setup`.

Everything is installed into `.venv` beside this file. What follows `test` goes to pytest.
"""

from __future__ import annotations  # an old Python gets as far as the message in `main`

import hashlib
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
STAMP = VENV / "m05-setup"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
# One set for site and tests: the pages' results depend on what is installed.
EXTRAS = "docs,examples,executorch,test"
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
OLDEST = (3, 11)


def run(*arguments: str) -> None:
    """Run a module of the environment in the project's folder; end with its code if it fails."""
    print("$ python -m", *arguments, flush=True)
    code = subprocess.call([str(PYTHON), "-m", *arguments], cwd=ROOT)
    if code:
        sys.exit(code)


def fingerprint() -> str:
    """What the environment was made from."""
    digest = hashlib.sha256(f"{sys.version}\0{ROOT}\0{EXTRAS}\0".encode())
    for name in ("pyproject.toml", "constraints.txt"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def pinned(package: str) -> str:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith(f"{package}=="))


def setup() -> None:
    """Make `.venv`, unless the one that is there was finished from the same files."""
    wanted = fingerprint()
    if STAMP.exists() and STAMP.read_text(encoding="utf-8") == wanted and PYTHON.exists():
        return
    print(f"Setting up {VENV}: some minutes, once.", flush=True)
    try:
        venv.create(VENV, clear=True, with_pip=True)
    except subprocess.CalledProcessError:
        sys.exit("This Python cannot make environments. Debian, Ubuntu: install python3-venv.")
    pip = ("pip", "--disable-pip-version-check", "install", "-c", "constraints.txt")
    # PyPI's torch for Linux brings CUDA, gigabytes of it. Where PyTorch's own index cannot be
    # reached, pip is to say so at once and take what the configured index has.
    quick = ("--no-deps", "--retries", "0", "--timeout", "30", "--extra-index-url", CPU_WHEELS)
    run(*pip, *quick, pinned("torch"))
    run(*pip, "-e", f".[{EXTRAS}]")
    STAMP.write_text(wanted, encoding="utf-8")  # last: what was interrupted is made anew


def test(pytest_arguments: Sequence[str]) -> None:
    run("ruff", "check", ".")
    run("ruff", "format", "--check", ".")
    run("mypy")
    # The browser tests open this site. Part of the tests may do with the site that is there.
    if not pytest_arguments and "M05_SITE_DIR" not in os.environ:
        run("site_builder", "build")
    # Two workers, each with whole files: what a file's tests share is made once.
    run("pytest", *(pytest_arguments or ("-n", "2", "--dist", "loadfile")))


def main(arguments: Sequence[str]) -> None:
    if sys.version_info < OLDEST:
        found = ".".join(map(str, sys.version_info[:3]))
        sys.exit(f"m05 needs Python {OLDEST[0]}.{OLDEST[1]} or newer; this is {found}.")
    task, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if task not in ("site", "serve", "test", "setup") or (rest and task not in ("serve", "test")):
        sys.exit(__doc__)
    setup()
    if task == "site":
        run("site_builder", "build")
        print(f"Open {ROOT / 'site' / 'index.html'}, or: python3 tasks.py serve")
    elif task == "serve":
        run("site_builder", "serve", *rest)
    elif task == "test":
        test(rest)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
