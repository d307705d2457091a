"""C compilers, and the cache of what they built. Devices and firmware both use it."""
