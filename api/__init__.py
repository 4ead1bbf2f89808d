"""The REST server: ASGI endpoints over a `MessagingService`, their OpenAPI document, a server.

`app.create_app` puts the endpoints together, `serve.serve` runs them. It sees only `tms.core` and
`tms.wire`: which store is below is not its business.
"""
