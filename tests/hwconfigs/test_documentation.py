"""docs/hardware.md cannot drift from the schema."""

from pathlib import Path

from gtsim.hwconfigs.fields import Table
from gtsim.hwconfigs.schema import REQUIRED_RESOURCES, Hardware, key_paths
from gtsim.hwconfigs.tables import Resource

DOCS = Path(__file__).resolve().parents[2] / "docs" / "hardware.md"


def reference(heading: str, table: type[Table]) -> str:
    """The documentation of one table, as docs/hardware.md must have it."""
    assert table.__doc__
    rows = [f"| `{name}` | {field.description} |" for name, field in table.model_fields.items()]
    return "\n".join([f"**`[{heading}]`** {table.__doc__}", "", "| key | meaning |", "|---|---|", *rows, ""])


def test_every_key_is_documented_as_in_the_schema() -> None:
    text = DOCS.read_text()
    tables = {name: field.annotation for name, field in Hardware.model_fields.items()}
    for name, table in {**tables, "resources.NAME": Resource}.items():
        if isinstance(table, type) and issubclass(table, Table):
            assert reference(name, table) in text


def test_required_resources_are_documented() -> None:
    text = DOCS.read_text()
    assert not [name for name in REQUIRED_RESOURCES if f"| `{name}` |" not in text]


def test_key_paths_cover_tables_resources_and_keys() -> None:
    assert {"l2", "l2.line_bytes", "resources", "resources.x.unit", "tensor.rate_vs_16bit"} <= set(key_paths({"x": {}}))
