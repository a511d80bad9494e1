"""Messages and service of the protocol, compiled from ``destination.proto`` when this module is imported."""

from typing import Any

import grpc

FILE = "loader/fivetran/destination.proto"

# Compiled in memory by grpcio-tools: no generated code is stored, so there are no types.
messages: Any
services: Any
messages, services = grpc.protos_and_services(FILE)
