"""A profile of two candidates of SpMV, between which hidden locality decides."""

from half_profile import linear
from warploom import profiles
from warploom.model_inputs import LOSS, PREPARATION_INPUTS, REFERENCE
from warploom.profiles import Profile

ALONE, ALIKE = "spmv/none/csr/merge[items_per_thread=2]", "spmv/none/csr/vector"


def save_overlap_profile(folder, gpu):
    """Write a profile that predicts `ALIKE` where rows that use a column have 30 % of the others in common."""
    constants = {REFERENCE: 0.0, LOSS: 0.0, ALONE: 0.3, ALIKE: 0.6}
    model = "spmv-float64"
    models = {
        f"{model}-warm": linear(("hidden_overlap",), constants, {ALIKE: -1.0}),
        f"preparation-{model}": linear(PREPARATION_INPUTS, {ALONE: 0.0, ALIKE: 0.0}, {}),
    }
    metrics = {"selectors": {f"{model}-warm": {"margin": 0.01, "unsure_loss": 0.2}}}
    profiles.save(folder / "p.safetensors", Profile(gpu, (9, 0), "13.0", models, metrics=metrics))
