"""`/people/`, `/activity/`, `/comments/` and logins: who may do what, who did what, who said what."""
