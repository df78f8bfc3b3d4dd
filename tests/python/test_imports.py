"""Dependencies between modules of the package point one way."""

import ast
import pathlib

import pytest

import warploom

ROOT = pathlib.Path(warploom.__file__).parent
CORE = "warploom._core"


def modules():
    """Return the modules of the package by name, with their paths."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = ["warploom", *path.relative_to(ROOT).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(tree, known):
    """Yield what a module imports of the package, in functions too; not what is for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module in known:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name for name in inner if name in known)
            if any(name not in known for name in inner):
                yield node.module
        else:
            yield from imports(node, known)


def graph():
    found = modules()
    known = {*found, CORE}  # which is compiled, and imports nothing of Python
    edges = {name: set(imports(ast.parse(path.read_text()), known)) - {name} for name, path in found.items()}
    return edges | {CORE: set()}


def find_circle(edges):
    """Return modules that import each other in a circle, or nothing."""
    done, path = set(), []

    def visit(name):
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        path.append(name)
        for other in sorted(edges[name]):
            if circle := visit(other):
                return circle
        done.add(path.pop())
        return []

    return next(filter(None, map(visit, sorted(edges))), [])


def test_no_module_imports_itself_in_a_circle():
    edges = graph()
    assert len(edges) > 100
    circle = find_circle(edges)
    assert not circle, " -> ".join(circle)


def test_a_circle_would_be_found(tmp_path):
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()}
    assert find_circle(edges) == ["a", "b", "c", "a"]
    known = {"warploom.plan", "warploom.candidates"}
    tree = ast.parse("def late():\n    from warploom import plan\n    from warploom.candidates import parse\n")
    assert set(imports(tree, known | {"warploom"})) == known


@pytest.mark.parametrize(
    "name", ["plan", "candidates", "explanation", "features", "formats", "permutations", "profiles"]
)
def test_what_plans_needs_nothing_that_sweeps_or_trains(name):
    edges = graph()
    reached, left = set(), {f"warploom.{name}"}
    while left:
        module = left.pop()
        reached.add(module)
        left |= edges[module] - reached
    outer = ("bench", "corpus", "experiments", "reproduce", "training", "cli")
    assert not {module for module in reached if module.split(".")[1:2] and module.split(".")[1] in outer}
