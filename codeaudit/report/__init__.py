"""Renderers of what the rooms below found out. They decide nothing."""
