"""Values, errors, limits and interfaces. Imports nothing else of this project."""
