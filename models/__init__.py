"""Generative models: their contract (spec), how they are found (registry), the embedded toybox."""
