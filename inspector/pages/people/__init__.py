"""People: accounts, logins, activity, comments."""
