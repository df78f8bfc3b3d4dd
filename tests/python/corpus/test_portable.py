"""Exponentials and logarithms against NumPy's, and the normal draws against their moments."""

from __future__ import annotations

import numpy as np

from warploom.corpus.constructions._portable import exp2, log2, normal


def test_exp2():
    x = np.linspace(-40, 40, 10_001)
    np.testing.assert_allclose(exp2(x), np.exp2(x), rtol=2e-15)
    whole = np.arange(-30.0, 31.0)
    np.testing.assert_array_equal(exp2(whole), 2.0**whole)


def test_log2():
    x = np.concatenate([np.linspace(1e-9, 4, 10_001), 10.0 ** np.arange(-15, 16)])
    np.testing.assert_allclose(log2(x), np.log2(x), rtol=1e-13, atol=1e-14)


def test_normal_moments():
    drawn = normal(3, 50_000)
    assert abs(drawn.mean()) < 0.03
    assert abs(drawn.std() - 1) < 0.02
    assert abs((np.abs(drawn) < 1).mean() - 0.6827) < 0.01
    assert abs((np.abs(drawn) < 2).mean() - 0.9545) < 0.01
    assert abs(np.corrcoef(drawn, normal(4, 50_000))[0, 1]) < 0.03
    assert abs(np.corrcoef(drawn, normal(3, 50_000, stream=1))[0, 1]) < 0.03
