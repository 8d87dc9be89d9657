"""Emulation of a network on one machine: every rank in its own network namespace, behind a switch with rate and delay."""

HOSTS = "NEURO_HOSTS"  # in a rank's environment: where the namespaces are held
PORT = "eth0"  # a host's interface
