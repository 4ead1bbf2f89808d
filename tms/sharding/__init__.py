"""Lists and sums over the shards of a store, and access to a shard wherever its leader is."""
