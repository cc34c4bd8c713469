"""The demo: a small project with three broken modules, and a script that plays the agents which repair it.

project/      the shop library, as it is copied into a repository of its own
script.yaml   what the model says: one parent, three fixers, one of which fails and is resumed
stage         that repository, its git and its tests;  checks: what has to be true at the end (pure)
"""
