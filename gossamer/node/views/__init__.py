"""What a node tells of itself and lets be asked of it: the API's view, in parts.

Everything is read from the objects that the processes publish into.
"""
