"""The contest's submission: one Python file that holds the routes of a table and their kernels."""
