"""The jars of Java clients: Python packages carry them, in the directory LAZURITE_JARS."""

import os
import shutil
import tarfile
import zipfile
from pathlib import Path

DIRECTORY = Path(os.environ["LAZURITE_JARS"])
# The packages that the makers of these jars put in front of the names of classes.
AZURE_PREFIX = "is.hail.shadedazure."
HADOOP_PREFIX = "org.apache.flink.fs.shaded.hadoop3."


def jars_of_azure():
    jar = DIRECTORY / "hail-all-spark.jar"
    if not jar.exists():
        with zipfile.ZipFile(next(DIRECTORY.glob("hail-*.whl"))) as wheel:
            unpack(wheel.open("hail/backend/hail-all-spark.jar"), jar)
    return [jar]


def jars_of_hadoop():
    names = ["opt/flink-azure-fs-hadoop-1.10.3.jar", "lib/flink-dist_2.11-1.10.3.jar", "lib/log4j-1.2.17.jar", "lib/slf4j-log4j12-1.7.15.jar"]
    jars = [DIRECTORY / Path(name).name for name in names]
    if not all(jar.exists() for jar in jars):
        with tarfile.open(next(DIRECTORY.glob("apache-flink-*.tar.gz"))) as package:
            for name, jar in zip(names, jars):
                unpack(package.extractfile(f"apache-flink-1.10.3/deps/{name}"), jar)
    return jars


def unpack(member, path):
    partial = path.with_suffix(".partial")
    with member, partial.open("wb") as file:
        shutil.copyfileobj(member, file)
    partial.rename(path)
