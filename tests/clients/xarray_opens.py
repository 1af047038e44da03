"""Opens netCDF files with xarray, one for each line of standard input, and prints what it finds.

For each file a line of JSON: sizes, attributes, and each variable's dimensions, units and values
(``null`` for NaN), and the rows of its table in pandas that have no gap.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import xarray


def told(path: str) -> dict[str, Any]:
    with xarray.open_dataset(path, engine="scipy") as data:
        table = data.to_dataframe().dropna()
        return {
            "sizes": {str(name): int(size) for name, size in data.sizes.items()},
            "attrs": {str(name): str(value) for name, value in data.attrs.items()},
            "coordinates": sorted(str(name) for name in data.coords),
            "variables": {
                str(name): {
                    "dimensions": list(one.dims),
                    "units": one.attrs.get("units", ""),
                    "values": np.where(np.isnan(one.values), None, one.values).tolist(),
                }
                for name, one in data.variables.items()
            },
            "whole_rows": len(table),
        }


for line in sys.stdin:
    sys.stdout.write(json.dumps(told(line.strip())) + "\n")
    sys.stdout.flush()
