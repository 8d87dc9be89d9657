"""Task cluster over gRPC: nameserver, brokers, workers, and the pool that a model uses.

``proto/`` is the contract with processes in other languages.
"""

import os

# gRPC's core reports ended connections on the terminal, which no user needs; errors stay
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
