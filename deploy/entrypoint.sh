#!/bin/sh
# A container's host name is its own in the network, and so is the node that is named after it.
set -eu
export GOSSAMER_NODE__NAME="${GOSSAMER_NODE__NAME:-gossamer@$(hostname)}"
exec gossamer "$@"
