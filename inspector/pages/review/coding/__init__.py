"""The coding screen and the adjudicator's."""
