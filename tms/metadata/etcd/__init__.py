"""The metadata store on etcd 3.4 or newer."""
