"""What reviewers write about an item: drafts, marks, disagreements, resolutions."""
