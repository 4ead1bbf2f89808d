"""The console: web pages for operators of the server. Only `tms serve` imports this package."""
