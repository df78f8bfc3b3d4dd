"""Tables and figures of Mehrabi et al. (2021), row permutations for SpMM: a module for each subject."""
