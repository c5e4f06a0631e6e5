"""What people write about an item: drafts, marks and their places, guesses, disagreements, resolutions. Who gets which
item is in `queues`; counting it is in `results`."""
