"""TRACE: what a program asks of a device, op by op."""
