"""Git plumbing: objects as data. It decides nothing about what is audited, and never lets a repository's own settings act."""
