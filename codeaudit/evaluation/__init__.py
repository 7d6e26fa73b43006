"""Which calls of a program measure a reported return, and under which action rule."""
