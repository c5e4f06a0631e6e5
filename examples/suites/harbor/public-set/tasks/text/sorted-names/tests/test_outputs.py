import pathlib

found = pathlib.Path("/root/sorted.txt").read_text().split()
assert found == ["Anna", "bert", "Carla", "dora"], found
