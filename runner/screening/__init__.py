"""Screens a suite as a whole before its measurements are trusted: leaks, near-duplicates, roles that do not hold."""
