"""`/experiments/<id>/`: the conditions of one experiment side by side."""
