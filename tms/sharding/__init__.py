"""Lists and sums over the shards of a store, and the way to one wherever it is led."""
