"""The bodies of REST, in Avro and in JSON, shared by the server and the client."""
