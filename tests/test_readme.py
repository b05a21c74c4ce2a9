"""The README's code runs as it stands, says what the prose says, and is the same in both."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
READMES = ["README.md", "README.zh-TW.md"]


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _code(name: str) -> str:
    (block,) = re.findall(r"^```python\n(.*?)^```$", _text(name), re.MULTILINE | re.DOTALL)
    return block


def test_both_languages_have_the_same_code_but_comments():
    first, second = (ast.dump(ast.parse(_code(name))) for name in READMES)
    assert first == second


@pytest.mark.parametrize("name", READMES)
def test_code_runs_in_an_empty_folder(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(_code(name), name, "exec"), {"__name__": "__main__"})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 2 + 14 + 1  # overall, headers, positions, verdict
    before, after = (float(re.search(r"([\d.]+) dB", lines[i])[1]) for i in (0, -1))
    assert after > before + 3  # "fc is guilty"


@pytest.mark.parametrize("name", READMES)
def test_links_lead_to_files_and_to_the_other_language(name):
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", _text(name))
    assert [target for target in targets if not (ROOT / target).is_file()] == []
    assert {*READMES} - {name} < {*targets}


@pytest.mark.parametrize("name", READMES)
def test_versions_are_the_tested_ones(name):
    pins = dict(
        line.split("==") for line in _text("constraints.txt").splitlines() if line[0].isalpha()
    )
    assert re.findall(r"torch==([\d.]+)", _text(name)) == [pins["torch"]]
    for package in ("torch", "torchao"):
        minor = pins[package].rpartition(".")[0]
        assert re.search(rf"{package} {re.escape(minor)}\b", _text(name))
