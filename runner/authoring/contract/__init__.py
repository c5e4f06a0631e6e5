"""The authoring contract: what a patch, and the skills it leaves, must keep to. Prompts and the reading of replies are
beside this folder."""
