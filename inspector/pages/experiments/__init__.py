"""An experiment: its conditions beside each other."""
