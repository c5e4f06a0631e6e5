"""`/experiments/<id>/`: the conditions of one experiment beside each other."""
