"""HTTP/1.1 from the socket to a handler, one way for every request, independent of resources."""
