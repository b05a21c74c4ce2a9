"""What the notebooks install, page by page."""

from pathlib import Path

from site_builder.hooks import install_command
from site_builder.pages import read

DOCS = Path(__file__).parents[2] / "docs"


def test_a_notebook_installs_the_extras_its_page_names() -> None:
    real, small = (read(DOCS / f"{n}.md", n, "zh-TW") for n in ("real-network", "m05-4"))
    repository = "https://github.com/someone/m05"
    assert install_command(real.extras, repository) == (
        '%pip install -q "m05[examples] @ git+https://github.com/someone/m05"'
    )
    assert install_command(small.extras, repository) == (
        '%pip install -q "m05 @ git+https://github.com/someone/m05"'
    )
