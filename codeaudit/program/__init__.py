"""The whole program: files joined by names. It knows Python and option parsers, and nothing of reinforcement
learning."""
