"""Demands of the built-in node types, one file a family; each registers itself."""
