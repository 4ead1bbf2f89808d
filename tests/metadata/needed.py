"""The prerequisites of tests with real servers, and the reason why a test cannot run."""

import shutil


def needed(kind: str) -> list[str]:
    tools = ["etcd"] if kind == "etcd" else ["java", "mvn"]
    return [tool for tool in tools if shutil.which(tool) is None]
