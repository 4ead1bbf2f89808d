"""A server of a cluster: it answers itself while it leads, and forwards else."""
