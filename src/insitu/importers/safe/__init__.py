"""Reading untrusted files: bounded zips, pickles without code, loaders in a child process."""
