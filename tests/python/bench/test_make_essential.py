from __future__ import annotations

import numpy as np
import pandas as pd

from warploom.bench.make_essential import suffice

COMPARED = "spmv/none/csr/scalar"
OTHERS = [f"spmv/none/cmrs/basic[height={height}]" for height in (1, 2, 16)]


def test_candidates_are_added_until_little_is_lost():
    times = pd.DataFrame([[8, 1, 4, np.nan], [8, 1.001, 1, 9], [8, 1, 9, 7]], columns=[COMPARED, *OTHERS])
    assert suffice(times) == {COMPARED, OTHERS[0]}
    assert suffice(times, loss=1e-6) == {COMPARED, *OTHERS[:2]}
    assert suffice(times, loss=10.0) == {COMPARED}
