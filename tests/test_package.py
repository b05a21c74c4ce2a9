"""The package's face: what it exports, and that each public name is documented."""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import m05

CONTRACT = {
    "m05.models": ["TinyConvNet", "example_inputs"],
    "m05.data": ["trained_tiny_net", "calibration_batches", "make_loader", "evaluate"],
    "m05.graph_utils": ["sqnr", "qdq_nodes"],
    "m05.pt2e": [
        "export_module", "prepare_pt2e", "convert_pt2e", "get_xnnpack_quantizer", "Quantizer",
        "QuantizationAnnotation", "ANNOTATION_KEY", "prepare_for_propagation_comparison",
        "extract_results_from_loggers", "compare_results", "quiet",
    ],
    "m05.weight_norm": ["strip_weight_norm"],
    "m05.viz": ["table"],
    "m05.layerwise": ["layerwise_sqnr"],
    "m05.skip": ["SkipQuantizer"],
}  # fmt: skip

# A later row may import an earlier one, never the reverse.
ORDER = [
    "_noise", "graph_utils", "models", "data", "weight_norm", "_copying", "_export", "_folding",
    "pt2e", "skip", "layerwise", "_figures", "viz",
]  # fmt: skip
MODULES = [m.name for m in pkgutil.iter_modules(m05.__path__)]


@pytest.mark.parametrize("module", CONTRACT)
def test_the_names_that_pages_import_exist(module):
    found = importlib.import_module(module)
    for name in CONTRACT[module]:
        assert hasattr(found, name)
        assert name in found.__all__


def test_init_only_re_exports():
    tree = ast.parse(Path(m05.__file__).read_text(encoding="utf-8"))
    assert all(isinstance(node, ast.ImportFrom | ast.Expr) for node in tree.body)
    names = [a.asname for node in tree.body if isinstance(node, ast.ImportFrom) for a in node.names]
    assert 10 <= len(names) <= 20
    for name in names:
        assert inspect.getdoc(getattr(m05, name))


@pytest.mark.parametrize("name", [name for name in MODULES if name[0] != "_"])
def test_public_names_say_what_they_do_with_an_example(name):
    module = importlib.import_module(f"m05.{name}")
    for public in module.__all__:
        value = getattr(module, public)
        if not getattr(value, "__module__", "").startswith("m05."):
            continue  # torchao's own: the API page shows them
        doc = inspect.getdoc(value)
        assert ">>>" in doc, f"{name}.{public} has no example"


def test_every_module_has_its_place_and_imports_go_one_way():
    assert sorted(MODULES) == sorted(ORDER)
    for name in MODULES:
        tree = ast.parse(Path(importlib.import_module(f"m05.{name}").__file__).read_text("utf-8"))
        imports = [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module]
        for imported in (i.removeprefix("m05.") for i in imports if i.startswith("m05.")):
            assert ORDER.index(imported) < ORDER.index(name), f"{name} imports {imported}"


def test_xnnpack_quantizer_is_named_in_one_file_only():
    sources = [p for p in Path(m05.__path__[0]).rglob("*.py")]
    assert [p.name for p in sources if 'xnnpack_quantizer"' in p.read_text("utf-8")] == ["pt2e.py"]


@pytest.mark.parametrize("name", MODULES)
def test_files_stay_readable(name):
    path = Path(importlib.import_module(f"m05.{name}").__file__)
    assert len(path.read_text("utf-8").splitlines()) <= 300
