"""Harbor's job and trial folders, and BenchFlow's."""
