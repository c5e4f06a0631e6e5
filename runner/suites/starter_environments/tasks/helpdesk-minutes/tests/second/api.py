import json
import sys
from pathlib import Path

RECORDING = next(Path(__file__).parent.glob("*_answers.json"))


def get(path):
    with RECORDING.open() as file:
        return json.load(file)[path]


if __name__ == "__main__":
    print(json.dumps(get(sys.argv[1])))
