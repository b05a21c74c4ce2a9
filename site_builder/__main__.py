"""`python -m site_builder build`, `serve` or `execute`."""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")  # Material's banner

from mkdocs.__main__ import cli
from mkdocs.exceptions import MkDocsException

from site_builder import execute, pages

SITE = Path("site")


def swap(new: Path, site: Path) -> None:
    """Put a new site in the place of the old one."""
    old = new.with_name(new.name + ".old")
    if site.exists():
        site.rename(old)
    new.rename(site)
    shutil.rmtree(old, ignore_errors=True)


def build(site: Path) -> None:
    """Build beside the site and swap: whatever fails, the last good site stays."""
    new = Path(tempfile.mkdtemp(prefix=f"{site.name}.tmp-", dir=site.absolute().parent))
    new.chmod(0o755)
    try:
        cli.main(
            ["build", "--strict", "--site-dir", str(new)], prog_name="mkdocs", standalone_mode=False
        )
        swap(new, site)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m site_builder", description=__doc__)
    parser.add_argument("command", choices=["build", "serve", "execute"])
    parser.add_argument("--site-dir", type=Path, default=SITE)
    parser.add_argument("--dev-addr", default="127.0.0.1:8000")
    options = parser.parse_args()
    try:
        if options.command == "build":
            build(options.site_dir)
        elif options.command == "serve":
            address = ["--dev-addr", options.dev_addr]
            cli.main(["serve", "--strict", *address], prog_name="mkdocs", standalone_mode=False)
        else:
            pairs = pages.discover(Path("docs"))
            found = [page for pair in pairs for page in pair]
            execute.execute_all(found, Path(".cache", "pages"))
    except (MkDocsException, pages.PageError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
