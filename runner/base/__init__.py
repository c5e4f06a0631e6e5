"""What everything in the runner is made of: values, errors, digests, encodings, texts, trees of files. Imports no other
room."""
