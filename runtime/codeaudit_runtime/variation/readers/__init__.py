"""Learning curves from files as people have them. One module a format; `discover` finds them. Not for statistics."""
