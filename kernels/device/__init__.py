"""Triton code and nothing else: no policy, no shape logic. Imported only where a kernel is compiled."""
