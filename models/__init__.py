"""Generative models: what they are (spec), how they are found (registry), and the embedded toybox."""
