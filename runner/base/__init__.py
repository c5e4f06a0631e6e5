"""The base of the whole runner: values, errors, digests, encodings, texts, trees of files. Imports no other package
of it."""
