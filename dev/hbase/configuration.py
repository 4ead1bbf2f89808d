"""The hbase-site.xml and zoo.cfg of small HBase servers on loopback, and Java's arguments for them.

The choices: everything listens on 127.0.0.1 only. Writes are synced to disk before they are
acknowledged, as in a real cluster. The gateway gives up on a call (25 s) before TMS does
(`hbase_timeout_s`, 30 s), so that then none of TMS's calls is under way there.
"""

from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

HOST = "127.0.0.1"

_OPENED = ("io", "nio", "lang", "lang.reflect", "util", "util.concurrent", "net")
_EXPORTED = (
    "java.base/jdk.internal.misc",
    "java.security.jgss/sun.security.krb5",
    "java.base/sun.net.dns",
    "java.base/sun.net.util",
)
JAVA_FLAGS = (
    "-XX:+UseSerialGC",
    "-Djava.net.preferIPv4Stack=true",
    "-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true",
    "--add-modules=jdk.unsupported",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    *(f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTED),
)
"""The options that HBase 2.6 needs on Java 17."""
FAST_START = "-XX:TieredStopAtLevel=1"
"""For tests: faster compilation to slower code."""

LOG4J = """\
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p [%t] %c{2}: %m%n
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
"""


def common_site(
    folder: Path, zookeeper_port: int, *, distributed: bool, give_up_s: int
) -> dict[str, str]:
    """Return the settings of all servers in `folder`. A call is given up after `give_up_s`."""
    give_up = str(give_up_s * 1000)
    return {
        "hbase.rootdir": f"file://{folder}/data",
        "hbase.wal.dir": f"file://{folder}/data",
        "hbase.tmp.dir": f"{folder}/tmp",
        "hbase.cluster.distributed": str(distributed).lower(),
        # The checksummed local file system, which is the default, can not sync.
        "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "hbase.unsafe.stream.capability.enforce": "true",
        "hbase.wal.provider": "filesystem",
        "hbase.wal.hsync": "true",
        "hbase.localcluster.assign.random.ports": "false",
        "hbase.zookeeper.quorum": HOST,
        "hbase.zookeeper.property.clientPort": str(zookeeper_port),
        "hbase.zookeeper.property.clientPortAddress": HOST,
        "hbase.zookeeper.property.dataDir": f"{folder}/zookeeper",
        "hbase.zookeeper.property.tickTime": "500",
        "zookeeper.session.timeout": "4000" if distributed else "40000",
        "hbase.regionserver.msginterval": "300",
        "hbase.master.hostname": HOST,
        "hbase.master.ipc.address": HOST,
        "hbase.master.info.port": "-1",
        "hbase.regionserver.hostname": HOST,
        "hbase.regionserver.ipc.address": HOST,
        "hbase.regionserver.info.port": "-1",
        "hbase.regionserver.handler.count": "12",
        "hbase.client.pause": "50",
        "hbase.rpc.timeout": str(min(10, give_up_s) * 1000),
        "hbase.client.operation.timeout": give_up,
        "hbase.client.meta.operation.timeout": give_up,
        # A message may have 10 MiB, and its row is a little larger. Tests see both sides refuse.
        "hbase.client.keyvalue.maxsize": str(16 * 1024 * 1024),
        "hbase.server.keyvalue.maxsize": str(12 * 1024 * 1024),
    }


def site_xml(properties: Mapping[str, str]) -> str:
    """Return a site file."""
    rows = "".join(
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in properties.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{rows}</configuration>\n'


def zoo_cfg(folder: Path, port: int) -> str:
    """Return the configuration of a separate ZooKeeper server."""
    return (
        f"tickTime=500\ndataDir={folder}/zookeeper\nclientPort={port}\n"
        f"clientPortAddress={HOST}\nadmin.enableServer=false\nmaxClientCnxns=0\n"
    )
