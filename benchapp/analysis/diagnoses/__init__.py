"""What reading a library shows: rules over its files and over what its episode saw. The rules need no database;
`evidence` reads what the episode saw, `diagnosis_queue` keeps the findings."""
