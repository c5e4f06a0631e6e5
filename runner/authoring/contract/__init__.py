"""The authoring contract: what a patch and the skills it leaves must keep to."""
