"""What sweeps do not measure: instrumented kernels, kernels that only read, and costs on the GPU and on the CPU.

Each is a module of this package. `run` measures one and writes what it found, with what it was
measured on, as ``experiments/<name>.csv`` in a folder; `load` reads it from there, or from what is shipped.

Needs the packages of ``pip install 'warploom[bench]'``; ``import warploom`` alone does not import this one.
"""

from __future__ import annotations

try:
    import pandas as _pandas  # noqa: F401
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"warploom.experiments needs {error.name}; install it and the other packages of benchmarks with "
        "pip install 'warploom[bench]'",
        name=error.name,
    ) from error

from warploom.experiments.registry import Experiment, experiments, find
from warploom.experiments.results import Findings, load, shipped
from warploom.experiments.run import run

__all__ = ["Experiment", "Findings", "experiments", "find", "load", "run", "shipped"]
