"""One module per sub-command of `roofline`; each exports `command`."""
