"""A trial: its steps and verdict, and two trials beside each other."""
