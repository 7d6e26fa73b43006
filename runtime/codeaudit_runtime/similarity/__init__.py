"""How alike are two sets of representations, and when does that say nothing? Not for returns.

`statistics` is pure, `features` steps policies, `study` says which units and what follows, `tables` and `command` show.
"""
