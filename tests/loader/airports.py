"""Metadata of two systems: airports, and routes that refer to them."""

from metadata.models import TargetColumn, TargetDataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.references import create_reference
from metadata.services.sources import create_source_column, create_source_dataset, create_system


def source(system, name: str, columns: dict[str, str], keys: tuple[str, ...]):
    """Create a source dataset with its columns and its generated targets."""
    dataset = create_source_dataset(system=system, name=name, location=f"{name}.csv", format="csv")
    for column, type_ in columns.items():
        ordinal = keys.index(column) + 1 if column in keys else None
        create_source_column(source_dataset=dataset, name=column, type=type_, key_ordinal=ordinal)
    generate_targets(source_dataset=dataset)
    return dataset


def airports_and_routes():
    air = create_system(name="Airports", short_name="air", location="{{ data_dir }}/landing/air")
    net = create_system(name="Network", short_name="net", location="{{ data_dir }}/landing/net")
    airport = source(air, "airport", {"icao": "string(4)", "name": "string", "elevation": "float"}, ("icao",))
    route = source(net, "route", {"route": "integer", "origin": "string(4)", "seats": "integer"}, ("route",))
    create_reference(
        child=target("rawcore.rc_net_route"),
        parent=target("rawcore.rc_air_airport"),
        pairs=[(column("rawcore.rc_net_route.origin"), column("rawcore.rc_air_airport.icao"))],
    )
    return {"airport": airport, "route": route}


def target(name: str) -> TargetDataset:
    schema, _, dataset = name.partition(".")
    return TargetDataset.objects.get(schema__name=schema, name=dataset)


def column(name: str) -> TargetColumn:
    dataset, _, own = name.rpartition(".")
    return target(dataset).columns.get(name=own)
