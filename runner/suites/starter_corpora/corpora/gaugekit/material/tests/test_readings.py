import tempfile
import unittest
from pathlib import Path

from gaugekit.readings import readings


class ReadingsTest(unittest.TestCase):
    def test_levels_count_from_the_common_zero(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "readings.csv"
            path.write_text("station,at,level_mm,flag\nWeir,2026-01-01T12:00,1200,\n")
            (found,) = readings(path, {"Weir": 300})
        self.assertEqual(found.level_mm, 1500)


if __name__ == "__main__":
    unittest.main()
