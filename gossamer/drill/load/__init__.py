"""The load of a drill: MQTT clients at every node, and the ledger of what became of each message."""
