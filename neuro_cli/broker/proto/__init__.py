"""The contract of the cluster's processes, and the code that grpc_tools makes of it.

scripts/compile_protocol.sh makes it again.
"""

from neuro_cli.broker.packages import need_packages

need_packages()  # whoever comes here is told what to install, not which module is missing
