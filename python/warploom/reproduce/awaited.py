"""Items that need trained models, or experiments that are not part of the sweep."""

from __future__ import annotations

from collections.abc import Mapping

from warploom.reproduce.registry import Printed, register_awaited

__all__: list[str] = []

_TRAINED = "it needs models trained on the measurements, and no trained models are at hand"

_MODELS: Mapping[str, tuple[str, str, tuple[Printed, ...]]] = {
    "G-T4": (
        "Accuracy, losses and gains of the predicted threads per row",
        "Table 4",
        (
            Printed("best accuracy", "82.48 to 85.41 %", "V100, four shuffles"),
            Printed("PLUB", "0.45 to 0.57 %", "V100, four shuffles"),
        ),
    ),
    "G-F6": ("Gains over fixed threads per row by nonzeros", "Fig. 6", ()),
    "G-T5": ("Losses by nonzeros", "Table 5", ()),
    "G-F7": ("Mispredictions by loss", "Fig. 7", ()),
    "G-F5": ("Optima over the sliced training blocks", "Fig. 5", ()),
    "G-T9": (
        "Accuracy, losses and gains for blocks",
        "Table 9",
        (Printed("accuracy", 0.8378, "V100", ".2%"), Printed("PLUB", 0.0145, "V100", ".2%")),
    ),
    "G-F10": ("Mispredictions by loss, for blocks", "Fig. 10", ()),
    "G-F12": ("Speedup against the depth of one decision tree", "Fig. 12", ()),
    "G-F13": ("The decision tree of five levels", "Fig. 13", ()),
    "G-F14": ("Accuracy against number and depth of trees", "Fig. 14", ()),
    "G-F15": ("Inference time against number and depth of trees", "Fig. 15", ()),
    "G-ovh": ("Cost of features and inference", "Sec. 6.2, eq. 6 and 7", ()),
}
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

for _id, (_title, _place, _printed) in _MODELS.items():
    register_awaited(_id, _title, _place, _TRAINED, _printed)
for _id, (_title, _place, _awaits, _printed) in _EXPERIMENTS.items():
    register_awaited(_id, _title, _place, _awaits, _printed)
