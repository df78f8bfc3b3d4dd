"""Write python/warploom/_core.pyi anew, from the extension module that is installed.

Needs pybind11-stubgen and ruff (``pip install '.[dev]'``).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
STUB = ROOT / "python" / "warploom" / "_core.pyi"

# What a caller means is simpler than what pybind11 would convert.
SIMPLER = {
    r"typing\.SupportsInt \| typing\.SupportsIndex": "int",
    r"typing\.SupportsFloat \| typing\.SupportsIndex": "float",
    r"typing\.Annotated\[numpy\.typing\.ArrayLike, (numpy\.\w+)\]": r"numpy.typing.NDArray[\1]",
    r"numpy\.ndarray\b": "numpy.typing.NDArray[typing.Any]",
    r"os\.PathLike \|": "os.PathLike[str] |",
    r"-> dict:": "-> dict[str, typing.Any]:",
    r"-> list:": "-> list[dict[str, typing.Any]]:",
    r"-> tuple:": "-> tuple[typing.Any, ...]:",
    r"^__all__: .*\n": "",
    r"^__version__: str = .*$": "__version__: str",
    r"^from __future__ import annotations\n": "",
}


def main() -> None:
    """Generate, simplify, format."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["pybind11-stubgen", "warploom._core", "-o", folder], check=True)
        text = (Path(folder) / "warploom" / "_core.pyi").read_text()
    for pattern, replacement in SIMPLER.items():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    STUB.write_text(text)
    subprocess.run([sys.executable, "-m", "ruff", "check", "--fix", "--quiet", STUB], check=False)
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", STUB], check=True)


if __name__ == "__main__":
    main()
