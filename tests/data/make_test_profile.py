"""Writes toy-profile.safetensors beside it anew: a test fixture, of no use for predictions.

Its models are trained, from a fixed seed, on a function with a closed form (the "Friedman 1" regression problem), one
of each kind and comparison. The stored vectors hold what the trainers predict; the tests in C++ and in Python compare
the predictor with them. Needs scikit-learn, LightGBM and PyTorch.
"""

from __future__ import annotations

from pathlib import Path

import lightgbm
import numpy as np
import torch
from sklearn.datasets import make_friedman1
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, RandomForestRegressor

from warploom import profiles
from warploom.training import export

TARGET = Path(__file__).with_name("toy-profile.safetensors")
INPUTS = [f"x{i}" for i in range(5)]
TIMES = ["fast", "slow"]


def main() -> None:
    """Train, export, write."""
    X, y = make_friedman1(400, n_features=5, noise=0.5, random_state=0)
    times = np.column_stack([y, 30 - y]) / 10
    classes = np.digitize(y, [10, 15, 20])
    check = X[:8]
    models = {
        "network": train_network(X, np.log(np.abs(times) + 0.1), check),
        "forest": export.from_sklearn_forest(
            RandomForestRegressor(12, max_depth=6, random_state=0).fit(X, times), INPUTS, TIMES, check=check
        ),
        "extra_trees": export.from_sklearn_forest(
            ExtraTreesClassifier(9, max_depth=5, random_state=0).fit(X, classes), INPUTS, check=check
        ),
        "boosting": export.from_sklearn_gradient_boosting(
            GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, classes), INPUTS, check=check
        ),
        "lightgbm": export.from_lightgbm(
            lightgbm.train(
                {"objective": "regression", "num_leaves": 15, "verbose": -1, "deterministic": True, "num_threads": 1},
                lightgbm.Dataset(X, y, feature_name=INPUTS),
                20,
            ),
            ["y"],
            check=check,
        ),
    }
    profile = profiles.Profile(
        gpu="Toy GPU",
        compute_capability=(0, 0),
        cuda="0.0",
        models=models,
        geometry={"warps": 32, "threads": 32, "elements_per_cache_line": 32},
        metrics={"note": "a test fixture"},
    )
    profiles.save(TARGET, profile)


def train_network(X, targets, check):
    """Train two networks of the layers of Mehrabi et al., halved."""
    mean, scale = np.log1p(X).mean(axis=0), np.log1p(X).std(axis=0)
    rows = torch.from_numpy(((np.log1p(X) - mean) / scale).astype(np.float32))
    wanted = torch.from_numpy(targets.astype(np.float32))
    members = []
    for seed in range(2):
        torch.manual_seed(seed)
        layers = [torch.nn.Linear(5, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16), torch.nn.ReLU()]
        member = torch.nn.Sequential(*layers, torch.nn.Linear(16, 2))
        optimiser = torch.optim.Adam(member.parameters(), 0.01, weight_decay=1e-4)
        for _ in range(100):
            optimiser.zero_grad()
            torch.nn.functional.mse_loss(member(rows), wanted).backward()
            optimiser.step()
        members.append(member)
    return export.from_torch_sequential(
        members, INPUTS, TIMES, mean=mean, scale=scale, log_unit=np.ones(5), output="exp", check=check
    )


if __name__ == "__main__":
    main()
