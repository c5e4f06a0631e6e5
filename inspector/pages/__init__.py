"""The pages, one folder per part of the address: the view, what it shows, in one place."""
