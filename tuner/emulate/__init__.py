"""Executes gfx950 machine code on the CPU, 64 lanes at a time, and watches what it does."""
