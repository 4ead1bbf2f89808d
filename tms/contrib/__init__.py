"""TMS behind the interfaces of other frameworks; each module needs its extra."""
