"""Pure arithmetic on machine and work: placement, prediction, comparison."""
