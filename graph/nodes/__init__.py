"""Built-in node types, one file a family; each registers itself."""
