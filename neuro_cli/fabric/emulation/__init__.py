"""Emulation of a network on one machine: every rank in its own network namespace, behind a switch with rate and delay."""

HOSTS = "NEURO_HOSTS"  # variable of a rank's environment: descriptors of the namespaces
PORT = "eth0"  # a host's interface
