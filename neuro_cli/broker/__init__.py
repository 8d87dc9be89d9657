"""Task cluster over gRPC: nameserver, brokers, workers, and the pool that a model uses.

``proto/`` is the contract with processes in other languages.
"""

import os

# what gRPC's core says to the terminal about connections that end is no news to a user; errors stay
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
