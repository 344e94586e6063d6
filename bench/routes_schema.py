"""Write the JSON Schema of route tables: what an editor or another program can check them with.

    python bench/routes_schema.py [--out docs/routes.schema.json]

It is made from the models that load tables and never edited. What a schema cannot say, loading
still checks: that a shape stands once, that K is a multiple of 32, that every number is finite.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from mxtune.configs.json_files import write_whole
from mxtune.configs.table import SCHEMA, RouteTable

FILE = Path(__file__).parent.parent / "docs" / "routes.schema.json"


def schema_text() -> str:
    """Return the schema (JSON Schema 2020-12), the same bytes every time."""
    body = RouteTable.model_json_schema(by_alias=True)
    for model in (body, *body["$defs"].values()):
        _require_constants(model)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": SCHEMA}
    return json.dumps(head | {k: v for k, v in body.items() if k != "title"}, indent=1) + "\n"


def _require_constants(model: dict[str, Any]) -> None:
    """Ask for the names of the format and of evidence: a model has a default, a file has not."""
    named = [name for name, value in model["properties"].items() if "const" in value]
    model["required"] = [*named, *model.get("required", ())]


def main() -> None:
    """Write the schema to the file that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=FILE, help="file to write")
    write_whole(parser.parse_args().out, schema_text())


if __name__ == "__main__":
    main()
