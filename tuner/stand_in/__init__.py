"""Modules that a submission or the contest's files import, for machines that do not have them.

This folder goes on the path of a child: it finds ``aiter`` and ``task`` in it by those names.
"""
