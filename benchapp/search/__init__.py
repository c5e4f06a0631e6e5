"""Full text over the record: one tokeniser of ours, an index in the database itself, a small filter language."""
