"""The settings that operators seldom need: they stand in `[advanced]` of a settings file.

They are left out of `tms serve --help`, so that the others fit one screen. Their flags and
environment variables work like those of the others, and `tms config` lists them all.
"""

ADVANCED = frozenset(
    (
        "cleanup_grace_s",
        "cleanup_keys_max",
        "cleanup_pause_ms",
        "cleanup_slice_ms",
        "cleanup_slice_rows",
        "fence_s",
        "flush_bytes_max",
        "frame_bytes_max",
        "hbase_protocol",
        "hbase_retry_s",
        "hbase_transport",
        "leveldb_block_cache_bytes",
        "leveldb_write_buffer_bytes",
        "message_headers_max",
        "metric_series_max",
        "namespaces_max",
        "poll_block_bytes",
        "queue_requests_max",
        "request_body_s_max",
        "request_gzip_ratio_max",
        "request_head_bytes_max",
        "request_head_s_max",
        "registry_check_s_max",
        "registry_eventual_lists",
        "registry_ids_at_once",
        "registry_master_eligible",
        "registry_namespace",
        "registry_references_depth_max",
        "registry_references_max",
        "registry_schema_bytes_max",
        "registry_schemas_max",
        "registry_session_s",
        "stop_grace_s",
        "topic_properties_bytes_max",
        "topic_properties_max",
        "topic_subscriptions_max",
        "transaction_changes_bytes_max",
        "transaction_changes_kept_bytes_max",
        "transaction_changes_max",
        "transaction_checkpoints_max",
        "transaction_lifetime_s_max",
        "transaction_outcomes_max",
        "transaction_owner_retention_s",
        "transaction_owners_max",
        "transaction_snapshot_edits",
        "transaction_snapshot_s",
        "transaction_snapshots_kept",
    )
)
SECTION = "advanced"
