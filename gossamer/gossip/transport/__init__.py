"""Datagrams and streams between members, sealed with the cluster's keys."""
