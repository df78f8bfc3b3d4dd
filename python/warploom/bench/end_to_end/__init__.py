"""End to end: what a user waits for until n products are done, planning included.

Sweeps time products on the GPU. Here the clock is that of the host, and it starts with the call that plans: warploom,
the vendor's library as a program in C calls it, and other packages are asked for n products with one matrix. Times are
stored in a folder, a row for each matrix, setting, place of the matrix and tool. `summarise` compares them in tables,
and `warploom.bench.end_to_end.picture.draw` in a picture.
"""

from __future__ import annotations

from warploom.bench.end_to_end.clock import Limits
from warploom.bench.end_to_end.rows import Rows, describe
from warploom.bench.end_to_end.run import run
from warploom.bench.end_to_end.sample import sample
from warploom.bench.end_to_end.summary import summarise

__all__ = ["Limits", "Rows", "describe", "run", "sample", "summarise"]
