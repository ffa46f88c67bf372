"""The history checker: real nodes, broken on purpose, judged only by what clients saw.

``python -m tests.real.history --help`` says how to run it; ``docs/simulation.md`` what it found.
"""
