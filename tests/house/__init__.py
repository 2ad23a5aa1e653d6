"""The rules of the house as functions: each takes the root of a tree and gives the faults it finds there."""
