"""The pages: views of the record, and the acts that people take on them. What a number means is computed in
`benchapp`."""
