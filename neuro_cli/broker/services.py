"""gRPC services of the ``.proto`` files: clients and handlers from their descriptors, so that no further code is generated."""

from types import SimpleNamespace

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from neuro_cli.broker.proto import broker_pb2, nameserver_pb2

SUBMISSION, WORK = (broker_pb2.DESCRIPTOR.services_by_name[name] for name in ("Submission", "Work"))
NAMESERVER = nameserver_pb2.DESCRIPTOR.services_by_name["Nameserver"]


class Stub(SimpleNamespace):
    """Client of a ``service`` on ``channel``: an attribute for each of its methods."""

    def __init__(self, service: ServiceDescriptor, channel: grpc.Channel | grpc.aio.Channel) -> None:
        for method in service.methods:
            call = getattr(channel, _pattern(method))(
                f"/{service.full_name}/{method.name}",
                request_serializer=GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            setattr(self, method.name, call)


def handler_of(service: ServiceDescriptor, servicer: object) -> grpc.GenericRpcHandler:
    """Return the handler for a server: each method of ``service`` is the method of ``servicer`` with its name."""
    handlers = {
        method.name: getattr(grpc, f"{_pattern(method)}_rpc_method_handler")(
            getattr(servicer, method.name),
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )
        for method in service.methods
    }
    return grpc.method_handlers_generic_handler(service.full_name, handlers)


def _pattern(method: MethodDescriptor) -> str:
    """Return gRPC's name for what a method takes and gives, for example ``unary_unary``."""
    return "_".join("stream" if streams else "unary" for streams in (method.client_streaming, method.server_streaming))
