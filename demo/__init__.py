"""The scripted model: it plays agent, author, teacher and judge on the bundled suites without any language model. Its
numbers mean nothing. Imports only the runner."""
