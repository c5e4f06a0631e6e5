"""Carries an episode forward: attempts, answers of the author, recorders."""
