"""The server: the only package that joins models, samplers and media."""
