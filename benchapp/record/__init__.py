"""The record beneath everything: recording, trajectories, digests, leases. Imports no other room but models."""
