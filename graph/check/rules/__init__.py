"""The built-in checks, one file each; a file registers itself by being here."""
