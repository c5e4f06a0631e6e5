import pathlib

found = pathlib.Path("/root/sum.txt").read_text()
assert float(found) == 42, found
