"""Sessions: state that a server keeps of a client, connected or not (MQTT 5.0, 4.1), in memory and on disc.

``session`` is one of them, ``sessions`` the table of a node; ``durable`` and ``store`` write them to disc,
``wills`` decides which wills are published, and when.
"""
