"""Running a training rule: seeded steps, averages of weights, checkpoints, a log and its plot.

For any network: what is trained, on what, and by which rule is handed in. Toybox's own route has
loops of its own beside this package.
"""
