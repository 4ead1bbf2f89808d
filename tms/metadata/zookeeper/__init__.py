"""The metadata store on ZooKeeper 3.6 or newer."""
