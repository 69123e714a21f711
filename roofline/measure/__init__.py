"""The only clock: devices, timing, statistics, and the checks that make a number trustworthy."""
