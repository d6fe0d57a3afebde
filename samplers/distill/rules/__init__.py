"""Training rules of few-step models: pure losses on functions, for any model and any path.

A rule is called with the functions of a model, a batch and a moment of the run, and gives a loss.
It knows no network, no optimiser and no data; `onbeat.samplers.distill.training` runs it.
"""
