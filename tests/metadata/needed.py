"""What tests of real servers need, or why they cannot run."""

import shutil


def needed(kind: str) -> list[str]:
    tools = ["etcd"] if kind == "etcd" else ["java", "mvn"]
    return [tool for tool in tools if shutil.which(tool) is None]
