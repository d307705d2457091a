"""C compilers, and the cache of what they build. Used by devices and firmware."""
