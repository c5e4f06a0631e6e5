"""`/`: what there is, what is running, whether it helped."""
