"""Accounts, their levels and logins."""
