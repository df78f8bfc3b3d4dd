"""Items that need experiments that are not part of the sweep."""

from __future__ import annotations

from collections.abc import Mapping

from warploom.reproduce.registry import Printed, register_awaited

__all__: list[str] = []

_EXPERIMENTS: Mapping[str, tuple[str, str, str, tuple[Printed, ...]]] = {
    "D-F2": (
        "Split of the time of CSR SpMV",
        "Fig. 2",
        "it needs times of kernels that only read, only compute and do the rest, which the sweep does not measure",
        (
            Printed("random access", 0.251, "Sec. 2.1, A100", ".1%"),
            Printed("compute", 0.211, "Sec. 2.1, A100", ".1%"),
            Printed("miscellaneous", 0.538, "Sec. 2.1, A100", ".1%"),
        ),
    ),
    "C-F6.1": (
        "Bandwidth against strip height",
        "Fig. 6.1",
        "it needs times of a kernel that only reads the arrays, for every strip height, which the sweep does not "
        "measure",
        (),
    ),
}

for _id, (_title, _place, _awaits, _printed) in _EXPERIMENTS.items():
    register_awaited(_id, _title, _place, _awaits, _printed)
