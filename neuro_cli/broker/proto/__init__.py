"""Contract of the cluster's processes, and the code of its messages, which grpc_tools generates.

scripts/compile_protocol.sh generates it.
"""

from neuro_cli.broker.packages import need_packages

need_packages()  # the error says what to install, not which module is missing
