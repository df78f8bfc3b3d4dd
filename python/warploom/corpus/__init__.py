"""Matrices by name: collected ones, downloaded ones, and ones made from their definitions."""
