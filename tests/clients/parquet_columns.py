"""Reads a Parquet file with pyarrow, and prints its columns as JSON; NaN as "nan"."""

from __future__ import annotations

import json
import sys

import pyarrow.parquet


def main(path: str) -> None:
    table = pyarrow.parquet.read_table(path)
    told = {
        name: {"type": str(table.schema.field(name).type), "values": table[name].to_pylist()}
        for name in table.column_names
    }
    sys.stdout.write(json.dumps(told).replace("NaN", '"nan"'))


main(sys.argv[1])
