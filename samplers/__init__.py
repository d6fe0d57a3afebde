"""Few-step sampling mathematics: schedules, noise, chunk state and the consistency step.

Pure functions on plain data; nothing here but `distill`, the training, knows a model.
"""
