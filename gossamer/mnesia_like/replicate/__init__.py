"""The pure machine that replicates the tables of a node: peers, frames and time in, actions out."""
