"""Tenants of a broker: what is put on at the connection of a tenant's client, and taken off."""
