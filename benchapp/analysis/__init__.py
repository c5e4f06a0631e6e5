"""Why runs went as they did: findings in libraries, failure classes, blame, aligned trials. How good they were is in
`stats`; what people say of them is in `review`."""
