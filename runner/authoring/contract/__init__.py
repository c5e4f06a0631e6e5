"""The authoring contract: the rules for a patch and the skills it leaves. The parent folder has the prompts and the
reading of replies."""
