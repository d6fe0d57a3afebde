"""Tensor operations: one folder per op with reference.py (torch), triton.py and one public function."""
