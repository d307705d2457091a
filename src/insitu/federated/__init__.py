"""Fleets: devices that learn together without sharing data, through Flower (https://flower.ai).

units     what a program trains, in real units and as 16-bit fixed point
coding    numbers in few bits: per channel, or a few signs with the gaps between them
delta     what a device sends: the change of its units, checked and sealed
rounds    one round: hand out a base, train, check the replies, average
"""
