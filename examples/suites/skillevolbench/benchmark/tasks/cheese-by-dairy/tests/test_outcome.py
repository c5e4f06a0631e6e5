import sys

from checking import EXPECTED, near, section, totals


def test_the_totals_are_written():
    """totals.json holds a number for every group."""
    found = totals()
    return {"groups": len(found)} if all(isinstance(value, int | float) for value in found.values()) else False


def test_every_group_is_there():
    """The groups are those of the input."""
    assert sorted(totals()) == sorted(EXPECTED["totals"])


def test_the_totals_are_right():
    """Every total, to the last digit asked for."""
    return near(totals(), EXPECTED["totals"])


def run():
    return {
        "task_id": EXPECTED["task_id"],
        "public": section("public", [test_the_totals_are_written, test_every_group_is_there]),
        "hidden": section("hidden", [test_the_totals_are_right]),
        "notes": [],
    }


if __name__ == "__main__":
    sys.exit(run()["hidden"]["passed"] == 0)
