"""Spark, with Hadoop's driver WASB: data sets with partitions, overwritten and appended to, and a stream that is stopped and
goes on from its checkpoint."""

import os
import socket
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from jars import HADOOP_PREFIX, jars_of_hadoop
from java_names import unshaded

SETTINGS = dict(part.split("=", 1) for part in os.environ["AZURE_STORAGE_CONNECTION_STRING"].strip(";").split(";"))
HOST = f"{SETTINGS['AccountName']}.blob.localhost"
PORT = SETTINGS["BlobEndpoint"].split(":")[2].split("/")[0]
# The driver makes the container.
ROOT = f"wasb://spark{os.getpid()}@{HOST}:{PORT}"
ROWS = 100_000


def session(directory):
    # Spark has the other classes of Hadoop, so the driver needs its own names.
    shaded = jars_of_hadoop()[0]
    driver = directory / "hadoop-azure.jar"
    unshaded(shaded, driver, "org.apache.hadoop.fs.azure", HADOOP_PREFIX)
    hosts = directory / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {HOST} {socket.gethostname()}\n")
    settings = {
        "spark.driver.extraJavaOptions": f"-Djdk.net.hosts.file={hosts}",
        "spark.hadoop.fs.azure.account.key." + f"{HOST}:{PORT}": SETTINGS["AccountKey"],
        "spark.hadoop.fs.azure.skip.metrics": "true",
        "spark.hadoop.fs.wasb.impl": "org.apache.hadoop.fs.azure.NativeAzureFileSystem",
        "spark.jars": f"{driver},{shaded}",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": os.fspath(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def check_data_sets(spark):
    rows = spark.range(ROWS).selectExpr("id", "id % 5 AS part", "concat('row ', id) AS text")
    for mode in "overwrite", "overwrite", "append":
        rows.write.mode(mode).partitionBy("part").parquet(f"{ROOT}/set")
    read = spark.read.parquet(f"{ROOT}/set")
    assert read.select("id", "part", "text").exceptAll(rows.union(rows)).isEmpty()
    assert (read.count(), read.where("part = 3").count()) == (2 * ROWS, 2 * ROWS // 5)
    rows.limit(1000).write.csv(f"{ROOT}/csv", header=True)
    assert spark.read.csv(f"{ROOT}/csv", header=True, inferSchema=True).selectExpr("sum(id)").first()[0] == 999 * 500


def check_stream(spark):
    source = spark.readStream.format("rate").option("rowsPerSecond", 500).load()
    counts = []
    for _ in "start", "start again":
        options = {"checkpointLocation": f"{ROOT}/checkpoint", "path": f"{ROOT}/stream"}
        query = source.writeStream.format("parquet").options(**options).trigger(processingTime="1 second").start()
        deadline = time.monotonic() + 60
        while len(batches := [batch for batch in query.recentProgress if batch["numInputRows"]]) < 3:
            assert time.monotonic() < deadline and query.isActive, (batches, query.exception())
            time.sleep(0.2)
        query.stop()
        counts.append(spark.read.parquet(f"{ROOT}/stream").count())
    values = spark.read.parquet(f"{ROOT}/stream").select("value")
    assert counts[0] < counts[1] and values.distinct().count() == values.count() == values.selectExpr("max(value)").first()[0] + 1, counts


def main():
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with tempfile.TemporaryDirectory() as directory:
        spark = session(Path(directory))
        spark.sparkContext.setLogLevel("OFF")
        check_data_sets(spark)
        check_stream(spark)
        spark.stop()


main()
