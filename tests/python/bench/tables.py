"""Small tables of measurements for tests."""

from __future__ import annotations

import tempfile

from warploom.bench import Measurements, Store

ENVIRONMENT = {"gpu": "Test GPU", "cuda": "13.0", "driver": "1.2", "versions": {"warploom": "0.1"}}


def matrix(name="a", rows=10, cols=10, nnz=20, **more):
    return {"matrix": name, "rows": rows, "cols": cols, "nnz": nnz, "family": "family", "source": "source", **more}


def measured(name="a", candidate="spmv/none/csr/scalar", median=1.0, *, setting="spmv/float64", **more):
    op, dtype, *rest = setting.split("/")
    row = {
        "matrix": name,
        "setting": setting,
        "op": op,
        "dtype": dtype,
        "layout": rest[0] if rest else "",
        "cache": "warm",
        "candidate": candidate,
        "median_us": median,
        "p10_us": median,
        "p90_us": median,
        "repeats": 5,
        "status": "ok",
        "preparation_ms": 0.5,
        "bytes": 100,
    }
    return {**row, **more}


def failed(name="a", candidate="spmv/none/csr/scalar", status="out of memory", **more):
    times = dict.fromkeys(("median_us", "p10_us", "p90_us", "preparation_ms"))
    return measured(name, candidate, **times, repeats=0, status=status, cache="", **more)


def tables(matrices, measurements, environment=ENVIRONMENT):
    """Return measurements as they are read from a folder."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        for facts in matrices:
            store.append(facts, [row for row in measurements if row["matrix"] == facts["matrix"]], environment)
        return Measurements.load(folder)
