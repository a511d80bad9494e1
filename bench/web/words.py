"""Unique names for generated objects."""

_THINGS = tuple(
    """
    account address article asset bill branch budget campaign carrier claim contract cost_center country coupon
    customer delivery device employee event invoice item lead ledger license location machine material member
    order partner payment person plant policy position price product project purchase quote receipt region return
    route sale segment sensor shift shipment site stock store subscription supplier task tax ticket trip vehicle
    vendor
    """.split()  # noqa: SIM905
)
_PARTS = ("header", "line", "status", "note", "detail", "history_code", "group", "class", "link", "plan", "forecast")
_ATTRIBUTES = (
    ("name", "string(200)"),
    ("status", "string(20)"),
    ("created_on", "date"),
    ("changed_at", "timestamp"),
    ("amount", "decimal(14,2)"),
    ("quantity", "integer"),
    ("currency", "string(3)"),
    ("is_active", "boolean"),
    ("category", "string(50)"),
    ("remark", "string"),
    ("weight", "decimal(10,3)"),
    ("priority", "integer"),
    ("channel", "string(30)"),
    ("valid_until", "date"),
    ("counter", "bigint"),
    ("ratio", "float"),
)
SYSTEMS = ("crm", "erp", "shop", "fin", "hr", "log", "mes", "web", "iot", "bil", "sup", "mkt")


def entities(count: int) -> list[str]:
    """Return ``count`` entity names, the plain ones first."""
    names = [*_THINGS, *(f"{thing}_{part}" for part in _PARTS for thing in _THINGS)]
    return [*names, *(f"{_THINGS[0]}_{number}" for number in range(count - len(names)))][:count]


def attributes(count: int) -> list[tuple[str, str]]:
    """Return ``count`` names and types of columns."""
    rounds = (count + len(_ATTRIBUTES) - 1) // len(_ATTRIBUTES)
    named = [(name if not n else f"{name}_{n + 1}", type_) for n in range(rounds) for name, type_ in _ATTRIBUTES]
    return named[:count]
