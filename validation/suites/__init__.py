"""The suites, one file each; a file registers its suite and is found by being here."""
