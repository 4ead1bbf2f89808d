"""The REST server over a `MessagingService`. Which store is below is not its business.

`http` is the way from a socket to a handler, `resources` has the handlers and their operations,
`openapi` the document that describes them, `cluster` the face of a server that does not lead.
`app` puts them together.
"""
