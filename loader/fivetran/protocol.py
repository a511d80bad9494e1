"""Messages and service of the protocol, compiled from ``destination.proto`` when this module is imported."""

import grpc

FILE = "loader/fivetran/destination.proto"

# Compiled in memory by grpcio-tools: no generated code is stored.
messages, services = grpc.protos_and_services(FILE)
