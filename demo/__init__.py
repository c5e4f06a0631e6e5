"""The scripted model: a stand-in that solves the bundled suites without any language model. Its numbers mean nothing."""
