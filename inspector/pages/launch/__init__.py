"""`/launch/`: the experiment file as a form and as text."""
