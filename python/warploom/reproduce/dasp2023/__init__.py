"""Tables and figures of Lu and Liu (2023), SpMV on tensor cores with DASP: a module for each subject."""
