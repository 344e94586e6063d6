"""Functions by AITER's modules."""
