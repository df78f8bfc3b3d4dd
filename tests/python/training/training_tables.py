"""Small sweeps whose best candidates are known functions of the features."""

from __future__ import annotations

import numpy as np
import pandas as pd

from warploom import features
from warploom.bench import Measurements, schema

CANDIDATES = (
    "spmv/none/csr/cusparse",
    "spmv/none/csr/scalar",
    "spmv/none/csr/vector[threads_per_row=2]",
    "spmv/none/csr/vector[threads_per_row=8]",
)

HALF = ("spmm/none/csr/row_split", "spmm/none/column-vectors/tensor_core", "spmm/none/csr/cusparse")


def row_of_features(random):
    """Return the features of a matrix that is not there: they fit together where the tests look."""
    rows, mean = 2 ** random.uniform(6, 16), 2 ** random.uniform(0, 6)
    values = {f"{of}_{name}": float(2 ** random.uniform(0, 4)) for of in features.sets() for name in features.names(of)}
    values |= {
        "spmv_num_rows": rows,
        "spmv_num_cols": rows,
        "spmv_nnz": rows * mean,
        "spmv_density": mean / rows,
        "spmv_nnz_per_row_mean": mean,
        "spmv_nnz_per_row_max": 2 * mean,
    }
    return values


def times(values):
    """Microseconds of each of `CANDIDATES`: one is right for short rows, one for middle ones, one for long ones."""
    mean, nnz = values["spmv_nnz_per_row_mean"], values["spmv_nnz"]
    base = 2 + nnz / 5e4
    distance = {1: abs(np.log2(mean) - 1), 2: abs(np.log2(mean) - 3), 3: abs(np.log2(mean) - 5)}
    return [1.5 * base, *(base * (1 + 0.3 * distance[i]) for i in (1, 2, 3))]


def vector_features(random):
    """Return features of column vectors."""
    return {f"column_vectors_{name}": float(random.uniform()) for name in features.names("column_vectors")}


def half_times(values):
    """Microseconds of each of `HALF`: tensor cores are right where rows of B are read for several nonzeros."""
    base = 2 + values["spmv_nnz"] / 5e4
    return [base, base * (0.4 + values["column_vectors_vectors_per_nonzero_8"]), 1.5 * base]


def sweep(
    matrices=60,
    seed=0,
    settings=("spmv/float32",),
    caches=("warm", "cold"),
    repeated=True,
    noise=0.0,
    half=False,
):
    """Return measurements of matrices of six families in which `times` are the times.

    With `half` of the candidates of `HALF`, and `half_times`; the matrices then have features of column vectors.
    """
    candidates, times_of = (HALF, half_times) if half else (CANDIDATES, times)
    random = np.random.default_rng(seed)
    facts, rows = [], []
    for i in range(matrices):
        values = row_of_features(random)
        if half:
            values |= vector_features(random)
        size = {
            name: int(values[f"spmv_{of}"])
            for name, of in zip(("rows", "cols", "nnz"), ("num_rows", "num_cols", "nnz"), strict=True)
        }
        kind = f"kind {i % 6} problem"
        facts.append(
            {
                "matrix": f"group/m{i}",
                "family": "group",
                "kind": kind,
                "source": "folder",
                "licence": "",
                "referenced_cols": size["cols"],
                **size,
                **values,
            }
        )
        for setting in settings:
            for cache in caches:
                for run in (0, 1) if repeated else (0,):
                    for number, time in enumerate(times_of(values)):
                        slow = 1.2 if cache == "cold" else 1.0
                        rows.append(
                            measurement(
                                f"group/m{i}",
                                candidates[number],
                                time * slow * np.exp(noise * random.normal()),
                                setting=setting,
                                cache=cache,
                                run=run,
                                preparation_ms=(0.1 + size["nnz"] * 1e-6) * (1 + number),
                            )
                        )
    return build(facts, rows)


def measurement(name, candidate, median, *, setting="spmv/float32", cache="warm", status="ok", **more):
    """Return a row of the table of measurements."""
    op, dtype, *rest = setting.split("/")
    return {
        "matrix": name,
        "setting": setting,
        "op": op,
        "dtype": dtype,
        "layout": rest[0] if rest else "",
        "k": int(rest[1][2:]) if rest else 1,
        "cache": cache,
        "candidate": candidate,
        "median_us": median,
        "repeats": 5,
        "status": status,
        "preparation_ms": 0.5,
        "bytes": 100,
        "environment": "e",
    } | more


def facts(name, **more):
    """Return a row of the table of matrices."""
    values = row_of_features(np.random.default_rng(0))
    return {"matrix": name, "rows": 10, "cols": 10, "nnz": 20, "family": "group", "kind": "", **values} | more


def build(matrices, rows):
    """Return measurements with these rows."""
    environment = {"gpu": "Test GPU", "cuda": "13.0", "compute_capability": "9.0"}
    table = schema.table(rows, schema.MEASUREMENTS).to_pandas()
    known = [c.name for c in schema.matrix_columns()]
    return Measurements(table, pd.DataFrame(matrices).reindex(columns=known), {"e": environment})
