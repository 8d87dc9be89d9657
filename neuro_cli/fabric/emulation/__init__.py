"""A network between ranks on one machine: every rank in a network namespace of its own, a switch with rate and delay between."""

HOSTS = "NEURO_HOSTS"  # in a rank's environment: where the namespaces are held
PORT = "eth0"  # a host's interface
