"""The services of a store with several shards: each call goes to the shard that it is for."""
