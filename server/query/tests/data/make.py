"""Makes the Parquet files of the tests. Needs pyarrow; run it here."""

from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

table = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "name": pa.array(["Ann", "Bob", None], pa.string()),
        "Age": pa.array([31, None, 7], pa.int32()),
        "score": pa.array([0.1, -2.5, 1e300], pa.float64()),
        "ratio": pa.array([0.1, 0.25, None], pa.float32()),
        "member": pa.array([True, False, None], pa.bool_()),
        "price": pa.array([Decimal("12.30"), Decimal("-0.05"), None], pa.decimal128(20, 2)),
        "large": pa.array([2**64 - 1, 0, 1], pa.uint64()),
        "at": pa.array([datetime(2020, 1, 2, 3, 4, 5, 678000), datetime(1969, 12, 31), None], pa.timestamp("us")),
        "at_ns": pa.array([datetime(2020, 1, 2, 3, 4, 5), None, None], pa.timestamp("ns")),
        "day": pa.array([date(2020, 2, 29), date(1969, 7, 20), None], pa.date32()),
        "place": pa.array([{"city": "Oslo", "zip": 1}, None, {"city": "Rome", "zip": None}]),
    }
)
plain = {"row_group_size": 2, "store_schema": False}
pq.write_table(table, "people-snappy.parquet", compression="snappy", **plain)
pq.write_table(table, "people-zstd-v2.parquet", compression="zstd", data_page_version="2.0", **plain)
pq.write_table(table, "people-gzip.parquet", compression="gzip", use_dictionary=False, **plain)
pq.write_table(table, "people-lz4.parquet", compression="lz4", **plain)
pq.write_table(pa.table({"id": [1], "tags": [["a", "b"]]}), "lists.parquet", store_schema=False)
