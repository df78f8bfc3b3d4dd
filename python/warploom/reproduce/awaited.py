"""Items that need trained models."""

from __future__ import annotations

from collections.abc import Mapping

from warploom.reproduce.registry import Printed, register_awaited

__all__: list[str] = []

_TRAINED = "it needs models trained on the measurements, and no trained models are at hand"

_MODELS: Mapping[str, tuple[str, str, tuple[Printed, ...]]] = {
    "M-F11": ("Shares of the four classes in the training set", "Fig. 11", ()),
    "M-F12": (
        "Distribution of the errors of predicted times",
        "Fig. 12",
        (Printed("share of errors below 10 %", 0.70, "Sec. V-D", ".0%"),),
    ),
    "M-F13": (
        "Confusion matrix with mean losses",
        "Fig. 13",
        (Printed("matrices in the right class", 0.82, "Sec. V-D, GV100", ".0%"),),
    ),
    "M-F14": (
        "Loss against the oracle",
        "Fig. 14",
        (
            Printed("mean loss", 0.038, "Sec. V-D", ".1%"),
            Printed("share within 4 %", 0.86, "Sec. V-D", ".0%"),
            Printed("share within 10 %", 0.90, "Sec. V-D", ".0%"),
        ),
    ),
    "M-cls": ("Direct classifier on the same features", "Sec. V-B", (Printed("loss", "4 to 5 %", "Sec. V-B"),)),
    "M-sens": (
        "Features of the matrix alone against all 24",
        "Sec. V-E",
        (
            Printed("mean speedup, matrix features", 1.10, "Sec. V-E", ".2f"),
            Printed("mean speedup, all features", 1.37, "Sec. V-E", ".2f"),
        ),
    ),
    "M-F15": ("Loss against network topology", "Fig. 15", ()),
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

for _id, (_title, _place, _printed) in _MODELS.items():
    register_awaited(_id, _title, _place, _TRAINED, _printed)
