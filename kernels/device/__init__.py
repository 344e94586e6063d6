"""Triton code and nothing else: no policy, no shape logic. Imported only to compile or interpret."""
