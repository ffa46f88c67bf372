"""The API's view of a node, in parts: reads and commands.

Everything is read from the objects that the processes publish into.
"""
