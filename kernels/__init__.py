"""Tensor operations: one folder per op with one public function, reference.py and triton.py.

Inference only. `_dispatch` says which version runs where.
"""
