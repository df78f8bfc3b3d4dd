"""Tables and figures of Koza et al. (2014), the format CMRS: a module for each subject."""
