"""What everything in the runner is made of: values, errors, digests, encodings. Imports no other room."""
