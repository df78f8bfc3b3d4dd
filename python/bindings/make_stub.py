"""Write the type stubs of what type checkers cannot see anew, from the package that is installed.

python/warploom/_core.pyi describes the extension module, python/warploom/formats/__init__.pyi names the classes of the
formats, which the package finds when it is imported.

Needs pybind11-stubgen and ruff (``pip install '.[dev]'``).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
STUB = ROOT / "python" / "warploom" / "_core.pyi"
FORMATS = ROOT / "python" / "warploom" / "formats" / "__init__.pyi"

# The types that callers should pass are simpler than all that pybind11 would convert.
SIMPLER = {
    r"typing\.SupportsInt \| typing\.SupportsIndex": "int",
    r"typing\.SupportsFloat \| typing\.SupportsIndex": "float",
    r"typing\.Annotated\[numpy\.typing\.ArrayLike, (numpy\.\w+)\]": r"numpy.typing.NDArray[\1]",
    r"numpy\.ndarray\b": "numpy.typing.NDArray[typing.Any]",
    r"os\.PathLike \|": "os.PathLike[str] |",
    r": dict(?=[,) ])": ": dict[str, typing.Any]",
    r"collections\.abc\.Callable(?!\[)": "collections.abc.Callable[..., typing.Any]",
    r"-> dict:": "-> dict[str, typing.Any]:",
    r"-> list:": "-> list[dict[str, typing.Any]]:",
    r"-> tuple:": "-> tuple[typing.Any, ...]:",
    r"^__all__: .*\n": "",
    r"^__version__: str = .*$": "__version__: str",
    r"^from __future__ import annotations\n": "",
}


def formats_stub() -> str:
    """Return the stub of warploom.formats."""
    formats = import_module("warploom.formats")
    classes = [formats.Format, *map(formats.find, formats.names())]
    lines = sorted(f"from {known.__module__} import {known.__name__} as {known.__name__}" for known in classes)
    functions = ["def find(name: str) -> type[Format]: ...", "def names() -> tuple[str, ...]: ..."]
    return "\n".join([*lines, "", *functions, ""])


def core_stub() -> str:
    """Return the stub of the core, unformatted."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["pybind11-stubgen", "warploom._core", "-o", folder], check=True)
        text = (Path(folder) / "warploom" / "_core.pyi").read_text()
    for pattern, replacement in SIMPLER.items():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def main() -> None:
    """Generate, simplify, format."""
    FORMATS.write_text(formats_stub())
    STUB.write_text(core_stub())
    subprocess.run([sys.executable, "-m", "ruff", "check", "--fix", "--quiet", STUB], check=False)
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", STUB], check=True)


if __name__ == "__main__":
    main()
