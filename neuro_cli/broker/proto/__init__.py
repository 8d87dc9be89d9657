"""The contract of the cluster's processes, and the code that grpc_tools makes of it.

python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. neuro_cli/broker/proto/*.proto
"""

from neuro_cli.broker.packages import need_packages

need_packages()  # whoever comes here is told what to install, not which module is missing
