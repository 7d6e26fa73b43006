"""The claims of a return-distribution head against restart Monte-Carlo truth. Not for training such heads.

Source of the method: H. Prasad, "Auditing the Risk Claims of Distributional Reinforcement Learning", arXiv:2607.11607.
"""
