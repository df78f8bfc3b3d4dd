"""What the sources leave to one place: which files may shuffle, vote, fence or count arrivals."""

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "cpp" / "src"

# What a line says -> the files that may say it.
ONE_PLACE = {
    # Shuffles and votes, the masks they take, and barriers of a warp: the warp layer.
    r"\b__(shfl|ballot|any|all|match_any|match_all|reduce)\w*_sync\b|\b__syncwarp\b|\b__activemask\b|\b0x[fF]{8}u?\b"
    r"|\b(shfl|vote|match|redux|bar\.warp)\.sync\b": {
        "kernels/device/warp.cuh",
    },
    # Fences between thread blocks: those of the last to arrive, and of all that wait for each other.
    r"\b__threadfence\w*|\b(membar|fence)\.\w+|\batomic_thread_fence\b": {
        "kernels/device/grid_barrier.cuh",
        "kernels/device/last_arrival.cuh",
    },
    # Additions in memory: counting arrivals, and the integers that features and conversions gather. Products add no
    # floats that way, because the result would depend on the order. On the host: integers that orders of rows gather.
    r"\batomicAdd\w*|\b__nv_atomic_\w+|\batomic_ref\b|\b(atom|red)\.\w+": {
        "kernels/device/grid_barrier.cuh",
        "kernels/device/last_arrival.cuh",
        "device/value_maps.cu",
        "features/column_vectors.cu",
        "features/spmm.cu",
        "kernels/hybrid_vectors/device_hybrid_vectors.cu",  # vectors of windows
        "kernels/hub_csr/device_hub_csr.cu",  # how often columns are referred to
        "kernels/segmented_csr/device_segments.cu",  # long rows
        "kernels/sell/device_sell.cu",
        "kernels/sell/row_slices.cu",
        "permutations/chunks.hpp",
        "permutations/device_clusters.cuh",  # weights, volumes and sizes of clusters
        "permutations/device_community.cu",  # volumes
        "permutations/device_locality_orders.cu",  # how often columns are used
        "permutations/device_pattern_graph.cu",  # a sum of hashes, and degrees
        "permutations/device_search.cuh",  # how many nodes were found
    },
    r"\bcooperative_groups\b": set(),
}


def device_sources() -> dict[str, str]:
    """The CUDA sources and headers, without comments, by their paths."""
    files = [path for path in SOURCES.rglob("*") if path.suffix in {".cu", ".cuh", ".hpp"}]
    return {path.relative_to(SOURCES).as_posix(): re.sub(r"//.*", "", path.read_text()) for path in sorted(files)}


@pytest.mark.parametrize("pattern", ONE_PLACE)
def test_shuffles_and_fences_have_one_place(pattern):
    found = {path for path, text in device_sources().items() if re.search(pattern, text)}
    assert found - ONE_PLACE[pattern] == set(), (
        "belongs into kernels/device/warp.cuh, grid_barrier.cuh or last_arrival.cuh"
    )
    assert ONE_PLACE[pattern] - found == set(), "no longer there: the list of files that may is out of date"
