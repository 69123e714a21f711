"""The rules of CONTRIBUTING.md that a program can check."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = {
    # A module may import from its own layer and from those above it in this list.
    "errors": 0,
    "units": 0,
    "callable_module": 0,
    "env": 1,
    "machine": 1,
    "kernels": 1,
    "work": 2,
    "measure": 3,
    "analysis": 4,
    "report": 5,
    "probe": 6,
    "commands": 6,
    "cli": 6,
    "__main__": 7,
}
HEAVY = {"torch", "triton", "cupy", "matplotlib", "cuda", "timm", "torchvision", "transformers", "pynvml"}
KERNEL_BODY, BODY, MODULE = 60, 50, 400


def sources(*folders):
    return sorted(
        path for folder in folders for path in (ROOT / folder).rglob("*.py") if not path.is_symlink()
    )


PACKAGE = [path for path in sources("roofline") if "roofline/kernels/" not in str(path)]
KERNELS = sources("kernels")
TESTS = sources("tests")
EVERYTHING = [*PACKAGE, *KERNELS, *TESTS, *sources("plots", "benchmarks")]


def name_of(path):
    return str(path.relative_to(ROOT))


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"), name_of(path))


def functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def body_lines(function):
    """Lines from the first statement after the docstring to the end."""
    first = function.body[1:] if ast.get_docstring(function) and len(function.body) > 1 else function.body
    return function.end_lineno - first[0].lineno + 1


def is_gpu_kernel(function):
    return any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)


@pytest.mark.parametrize("path", EVERYTHING, ids=name_of)
def test_module_and_functions_are_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MODULE
    long = {f.name: body_lines(f) for f in functions(parsed(path)) if body_lines(f) > limit(f)}
    assert long == {}


def limit(function):
    return KERNEL_BODY if is_gpu_kernel(function) else BODY


def public_without_docstring(node, prefix=""):
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for child in node.body:
        if isinstance(child, kinds) and not child.name.startswith("_"):
            if not ast.get_docstring(child):
                yield prefix + child.name
            if isinstance(child, ast.ClassDef):
                yield from public_without_docstring(child, f"{prefix}{child.name}.")


@pytest.mark.parametrize("path", [*PACKAGE, *KERNELS], ids=name_of)
def test_everything_public_has_a_docstring(path):
    tree = parsed(path)
    assert ast.get_docstring(tree), "the module has none"
    assert list(public_without_docstring(tree)) == []


def imports(node):
    """Names of every module imported at or below `node`."""
    for child in ast.walk(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield child.module
            if child.module == "roofline":
                yield from (f"roofline.{alias.name}" for alias in child.names)


def is_entry_point(node):
    """The part of a module that runs as a command: it may print, so it may import what prints."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "__name__ == '__main__'"
    return isinstance(node, ast.FunctionDef) and node.name == "main"


def layer_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return LAYERS.get(parts[1] if parts[0] == "roofline" else parts[0], 0)


LAYERED = [path for path in (*PACKAGE, *KERNELS) if path != ROOT / "roofline" / "__init__.py"]


@pytest.mark.parametrize("path", LAYERED, ids=name_of)
def test_imports_follow_the_data_flow(path):
    body = [node for node in parsed(path).body if not is_entry_point(node)]
    targets = {name.split(".")[1] for node in body for name in imports(node) if name.startswith("roofline.")}
    own = layer_of(path)
    back = {target for target in targets if LAYERS.get(target, 0) > own}
    assert back == set()


def test_machine_and_work_know_nothing_of_measuring():
    found = {
        (name_of(path), name)
        for path in sources("roofline/machine", "roofline/work")
        for name in imports(parsed(path))
        if re.match(r"roofline\.(measure|analysis|report|kernels|cli|probe)", name)
    }
    assert found == set()


def outer_imports(tree):
    """Names imported when the module is, leaving out what only a type checker sees."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Try):
            yield from imports(node)


@pytest.mark.parametrize("path", PACKAGE, ids=name_of)
def test_the_gpu_stack_and_extras_are_imported_late(path):
    # Tracing is made of torch and is itself imported late; nothing else may pull torch in.
    allowed = {"torch"} if layer_of(path) == LAYERS["work"] else set()
    assert {name.split(".")[0] for name in outer_imports(parsed(path))} & HEAVY <= allowed


@pytest.mark.parametrize("path", KERNELS, ids=name_of)
def test_kernels_import_early_only_what_their_decorators_need(path):
    assert {name.split(".")[0] for name in outer_imports(parsed(path))} & HEAVY <= {"triton", "torch"}


def test_kernels_is_no_package_of_its_own():
    assert not (ROOT / "kernels" / "__init__.py").exists()


def asserts(function):
    """Whether a test can fail: an assert, `pytest.raises`, or a helper called check_… or assert_…."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call) and re.search(
            r"(^|\.)(raises|warns|_?check\w*|assert\w*)$", ast.unparse(node.func)
        ):
            return True
    return False


@pytest.mark.parametrize("path", TESTS, ids=name_of)
def test_every_test_asserts_something(path):
    tests = [f for f in functions(parsed(path)) if f.name.startswith("test_")]
    assert [f.name for f in tests if not asserts(f)] == []


UNFINISHED = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "raise NotImplemented" + "Error")))


@pytest.mark.parametrize("path", EVERYTHING, ids=name_of)
def test_nothing_is_marked_as_unfinished(path):
    assert UNFINISHED.findall(path.read_text(encoding="utf-8")) == []


def test_the_rules_catch_what_they_are_for():
    bad = "def shown():\n    x = 1\n" + "    x += 1\n" * BODY + "class Public:\n    def method(self): pass\n"
    tree = ast.parse(bad)
    assert body_lines(tree.body[0]) == BODY + 1
    assert list(public_without_docstring(tree)) == ["shown", "Public", "Public.method"]
    late = ast.parse("import os\ndef f():\n    import torch\ntry:\n    import cupy\nexcept ImportError: pass")
    assert set(outer_imports(late)) == {"os", "cupy"}
    assert set(imports(late)) == {"os", "torch", "cupy"}
    assert not asserts(ast.parse("def test_x():\n    print(1)").body[0])
