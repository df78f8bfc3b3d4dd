"""From measurements to profiles: what needs the libraries that train models."""
