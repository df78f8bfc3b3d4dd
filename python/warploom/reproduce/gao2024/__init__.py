"""Tables and figures of Gao et al. (2024), threads per row of SpMV: a module for each subject."""
