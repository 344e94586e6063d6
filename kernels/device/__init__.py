"""Triton code and nothing else: no policy, no shape logic. Imported to compile or interpret."""
