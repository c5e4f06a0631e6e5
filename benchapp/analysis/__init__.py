"""Why runs went as they did: findings in libraries, failure classes, blame, aligned trials. `stats` measures how good
they were; `review` holds people's judgements about them."""
