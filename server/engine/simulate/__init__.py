"""The simulator: the real engine, scheduler, pool and admission on a clock that costs nothing.

A forward of r rows moves the clock by what a cost table says; nothing is computed. Beside it the
upper bound of what any scheduler could do (bound.py) and exact answers for tiny cases (exact.py).
What it is not: a model of a device beyond its cost table, or of encoding and networks.
"""
