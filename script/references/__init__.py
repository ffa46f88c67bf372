"""The reference pages of the documentation, made from the code that they describe.

``python -m script.references`` renews ``docs/reference``; a test fails while a page is not what the
code says. Each module here makes one page from one source: the configuration's schema, the OpenAPI document,
the command line's parser, a node's metrics, the vocabularies of events, the front door's docstrings.

Rules: 1. Nothing is said here that the code does not say: what lacks a meaning gets it in the code.  2. Two
runs give the same bytes: no time, no address, no path of this machine.
"""

from script.references.pages import pages, stale, write

__all__ = ["pages", "stale", "write"]
