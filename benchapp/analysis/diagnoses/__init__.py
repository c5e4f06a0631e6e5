"""What can be said of a library by reading it: rules over its files and over what its episode saw. The rules need no
database; `evidence` reads what the episode saw, `stored_diagnoses` and `diagnosis_queue` keep what was found."""
