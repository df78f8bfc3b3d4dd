"""The byte counts of Koza et al. 2014, eq. 6.1."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from warploom.bandwidth import beta_minus, beta_plus
from warploom.formats import CMRS


@pytest.mark.parametrize("value_bytes", [2, 4, 8])
@pytest.mark.parametrize("height", [1, 2, 8, 16])
@pytest.mark.parametrize(("rows", "nnz"), [(5, 10), (1000, 1), (1024, 99_999)])
def test_equation_6_1(rows, nnz, height, value_bytes):
    strips = int(np.ceil(rows / height))
    s_v, s_i = value_bytes, 4
    minus = beta_minus(rows, nnz, value_bytes, height=height)
    plus = beta_plus(rows, nnz, value_bytes, height=height)
    assert minus == (2 * s_v + s_i) * nnz + s_i * strips + s_v * rows
    assert plus == (s_v + s_i) * nnz + s_i * strips + 2 * s_v * rows
    assert minus - plus == s_v * (nnz - rows)


def test_beta_plus_is_what_the_format_and_the_vectors_take():
    A = csr_array(random_array((100, 70), density=0.1, rng=np.random.default_rng(0), format="csr"))
    stored = CMRS.from_csr(A, height=4)
    on_the_host = stored.nbytes - 4 * (stored.num_strips + 2)  # 64-bit offsets, and one past the last strip
    assert beta_plus(100, A.nnz, 8, num_cols=70, height=4) == on_the_host + 8 * (100 + 70)


def test_without_height_the_matrix_is_csr():
    assert beta_minus(7, 20, 4) == (4 + 4 + 4) * 20 + 4 * 7 + 4 * 7
