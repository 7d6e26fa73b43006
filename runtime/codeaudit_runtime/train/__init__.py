"""Recipes that make checkpoints. Not for auditing them."""
