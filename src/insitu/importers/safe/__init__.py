"""Reading files nobody vouches for: bounded zips, pickles without code, loaders in a child process."""
