"""Send orders as Fivetran does: ELEVATA_TOKEN=… python examples/sources/fivetran.py [127.0.0.1:50052] [FILE].

``manage.py serve_fivetran`` and a worker must run, and FILE must be below ELEVATA_SOURCE_ROOTS. The token is that of a
user with the roles editor and operator. The rows become ``rawcore.rc_fivetran_orders``.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import grpc

from loader.fivetran.protocol import messages, services

DATA = Path(__file__).resolve().with_name("data")
TYPE = messages.DataType.Value
ORDERS = messages.Table(
    name="orders",
    columns=[
        messages.Column(name="id", type=TYPE("INT"), primary_key=True),
        messages.Column(name="customer", type=TYPE("STRING")),
        messages.Column(
            name="amount",
            type=TYPE("DECIMAL"),
            params=messages.TypeParameters(decimal=messages.DecimalParameters(precision=10, scale=2)),
        ),
        messages.Column(name="ordered_on", type=TYPE("NAIVE_DATE")),
    ],
)


def main(address: str = "127.0.0.1:50052", file: str = str(DATA / "orders.csv")) -> None:
    """Create the table unless it exists, and write the rows of the file."""
    about = {"configuration": {"token": os.environ["ELEVATA_TOKEN"]}, "schema_name": "fivetran"}
    with grpc.insecure_channel(address) as channel:
        destination = services.DestinationConnectorStub(channel)
        known = destination.DescribeTable(messages.DescribeRequest(table_name="orders", **about))
        if known.not_found:
            _check(destination.CreateTable(messages.CreateRequest(table=ORDERS, **about)))
        _check(destination.WriteBatch(messages.BatchRequest(table=ORDERS, replace_files=[file], **about)))


def _check(answer: messages.Answer) -> None:
    if not answer.success:
        raise SystemExit(answer.task.message)


if __name__ == "__main__":
    main(*sys.argv[1:])
