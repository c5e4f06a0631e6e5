"""The pages: read-only views over the record, and the human acts that go with them."""
