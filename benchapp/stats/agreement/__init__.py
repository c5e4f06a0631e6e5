"""How far people who coded the same things agree. Numbers in, numbers out: no Django, no rows."""
