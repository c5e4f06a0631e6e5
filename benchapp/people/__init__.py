"""Accounts, their levels, and logins. What each level may open is in `inspector/web/access.py`; what people did is in
`record/writing/human_acts.py`."""
