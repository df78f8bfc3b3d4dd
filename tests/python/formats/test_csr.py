"""CSR: the format. Its products on the CPU are tested with those of all kernels."""

from round_trips import mehrabi_1
from warploom.formats import CSR


def test_the_example_of_the_paper():
    stored = CSR.from_csr(mehrabi_1())
    assert stored.indptr.tolist() == [0, 2, 2, 2, 3]
    assert stored.indices.tolist() == [1, 3, 0]
    assert stored.data.tolist() == [1, 2, 3]
    assert stored.nbytes == 5 * 8 + 3 * 4 + 3 * 8
