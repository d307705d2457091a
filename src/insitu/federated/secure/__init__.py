"""Secure aggregation: the server learns the sum of all changes, and nothing else about any of them.

secrets   shares of a secret, agreed keys, sealed letters, masks from a seed
party     one device: its keys, its shares for others, its masked change
total     the server: the sum of masked changes, with the masks of those who left taken off
rounds    the four messages of a round through Flower
"""
