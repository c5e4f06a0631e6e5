"""What reading a library shows: rules over its files and over what its episode saw. The rules need no database;
`evidence` reads what the episode saw, `stored_diagnoses` and `diagnosis_queue` keep the findings."""
