"""The Store on HBase, through its Thrift gateway."""
