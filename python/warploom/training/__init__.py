"""From measurements to profiles: the modules that need libraries for training models."""
